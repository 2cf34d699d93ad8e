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

    constexpr extents_and_strides() = default;
    /// \param v  tensor_view or typed_view of this rank
    template <class View>
    constexpr explicit extents_and_strides(View const& v) noexcept {
        for (int i = 0; i < Rank; ++i) {
            extents[i] = v.extent(i);
            steps[i] = v.stride(i);
        }
    }
    constexpr void set(int i, std::int64_t extent, std::int64_t step) noexcept {
        extents[i] = extent;
        steps[i] = step;
    }
    [[nodiscard]] static constexpr int rank() noexcept { return Rank; }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return {extents, Rank}; }
    [[nodiscard]] constexpr strides_view strides() const noexcept { return {steps, Rank}; }
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return extents[i]; }
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept { return steps[i]; }
    [[nodiscard]] constexpr std::int64_t offset(std::int64_t const* index) const noexcept {
        std::int64_t at = 0;
        for (int i = 0; i < Rank; ++i) at += index[i] * steps[i];
        return at;
    }
};

/// The extents of a view without elements: an address that is always valid.
inline constexpr std::int64_t no_elements[] = {0};

/// References the extents and strides of a tensor, or of a view of static rank.
template <>
struct extents_and_strides<dynamic_rank> {
    shape_view extents{no_elements};
    strides_view steps;

    constexpr extents_and_strides() = default;
    /// \param v  tensor_view or typed_view, whose lists must outlive this object
    template <class View>
    constexpr explicit extents_and_strides(View const& v) noexcept : extents{v.shape()}, steps{v.strides()} {}
    [[nodiscard]] constexpr int rank() const noexcept { return extents.rank(); }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return extents; }
    [[nodiscard]] constexpr strides_view strides() const noexcept { return steps; }
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return extents[i]; }
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept { return stride_of(extents, steps, i); }
    [[nodiscard]] constexpr std::int64_t offset(std::int64_t const* index) const noexcept {
        std::int64_t at = 0;
        if (steps.is_implicit())
            for (int i = 0; i < rank(); ++i) at = at * extent(i) + index[i];
        else
            for (int i = 0; i < rank(); ++i) at += index[i] * steps[i];
        return at;
    }
};

}  // namespace detail
}  // namespace ferry::inline v0
