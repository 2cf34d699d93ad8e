#pragma once
#include "grid.hpp"

#include <ferry/ferry.hpp>

template <> struct ferry::array_traits<grid> {
    // Describes the elements. Copies nothing; the grid remains the owner.
    static tensor_view view(grid const& g) { return {g.data, g.extents, g.strides}; }
    // Returns another owner of the same elements, for the consumer.
    static grid share(grid const& g) { return g; }
    // Imports a validated tensor; throws if the library cannot represent it.
    static grid adopt(managed_tensor t) {
        auto const elements =
            t.as<float, 2>();  // throws for another type, rank or device, or read-only data
        auto const kept = std::make_shared<managed_tensor>(std::move(t));
        return {kept,
                elements.data(),
                {elements.extent(0), elements.extent(1)},
                {elements.stride(0), elements.stride(1)}};
    }
};
