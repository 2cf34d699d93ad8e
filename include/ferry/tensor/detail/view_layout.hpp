// ferry: the extents and strides of a typed view.
#pragma once

#include <ferry/base/shape.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>

namespace ferry::inline v0 {

/// The `Rank` of a view whose rank is known only at run time.
inline constexpr int dynamic_rank = -1;

namespace detail {

/// Constructor tag: `as` has checked the view.
struct checked_by_as {
    explicit checked_by_as() = default;
};

/// Stores copies of extents and strides, so that a view of static rank references only the elements.
template <int Rank>
struct extents_and_strides {
    std::int64_t extents[Rank == 0 ? 1 : Rank] = {};
    std::int64_t steps[Rank == 0 ? 1 : Rank] = {};

    constexpr explicit extents_and_strides(tensor_view const& v) noexcept {
        for (int i = 0; i < Rank; ++i) {
            extents[i] = v.extent(i);
            steps[i] = v.stride(i);
        }
    }
    [[nodiscard]] static constexpr int rank() noexcept { return Rank; }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return {extents, Rank}; }
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return extents[i]; }
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept { return steps[i]; }
    [[nodiscard]] constexpr std::int64_t offset(std::int64_t const* index) const noexcept {
        std::int64_t at = 0;
        for (int i = 0; i < Rank; ++i) at += index[i] * steps[i];
        return at;
    }
};

/// References the extents and strides of the tensor.
template <>
struct extents_and_strides<dynamic_rank> {
    tensor_view view;

    constexpr explicit extents_and_strides(tensor_view const& v) noexcept : view{v} {}
    [[nodiscard]] constexpr int rank() const noexcept { return view.rank(); }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return view.shape(); }
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return view.extent(i); }
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept { return view.stride(i); }
    [[nodiscard]] constexpr std::int64_t offset(std::int64_t const* index) const noexcept {
        std::int64_t at = 0;
        if (view.strides().is_implicit())
            for (int i = 0; i < rank(); ++i) at = at * extent(i) + index[i];
        else
            for (int i = 0; i < rank(); ++i) at += index[i] * view.strides()[i];
        return at;
    }
};

}  // namespace detail
}  // namespace ferry::inline v0
