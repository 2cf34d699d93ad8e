#pragma once
#include "grid.hpp"

#include <ferry/ferry.hpp>

template <> struct ferry::array_traits<grid> {
    // Where the elements are: nothing is copied, the grid stays the owner.
    static tensor_view view(grid const& g) { return {g.data, g.extents, g.strides}; }
    // One more owner of the same elements, for the receiver.
    static grid share(grid const& g) { return g; }
    // A received tensor, validated already: layouts that the library cannot hold are refused.
    static grid adopt(managed_tensor t) {
        auto const elements =
            t.as<float, 2>();  // another type, rank or place, or read-only: ferry::error
        auto const kept = std::make_shared<managed_tensor>(std::move(t));
        return {kept,
                elements.data(),
                {elements.extent(0), elements.extent(1)},
                {elements.stride(0), elements.stride(1)}};
    }
};
