// ferry: the extents and strides of a typed view.
#pragma once

#include <ferry/base/shape.hpp>
#include <ferry/tensor/view.hpp>

#include <cstddef>
#include <cstdint>

namespace ferry::inline v0::detail {

/// Constructor tag: `as` has checked the view.
struct checked_by_as {
    explicit checked_by_as() = default;
};

/// Stores copies of extents and strides, so that a view of static rank references only the elements.
template <int Rank, bool HasStrides>
struct view_layout {
    std::int64_t extents[static_cast<std::size_t>(Rank == 0 ? 1 : Rank)] = {};
    std::int64_t steps[static_cast<std::size_t>(Rank == 0 ? 1 : Rank)] = {};

    constexpr view_layout() = default;
    /// \param v  tensor_view or typed_view of this rank
    template <class View>
    constexpr explicit view_layout(View const& v) noexcept {
        for (int i = 0; i < Rank; ++i) set(i, v.extent(i), v.stride(i));
    }
    constexpr void set(int i, std::int64_t extent, std::int64_t step) noexcept {
        extents[i] = extent;
        steps[i] = step;
    }
    [[nodiscard]] static constexpr int rank() noexcept { return Rank; }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return {extents, Rank}; }
    [[nodiscard]] constexpr strides_view strides() const noexcept { return {steps, Rank}; }
    [[nodiscard]] constexpr std::int64_t offset(std::int64_t const* index) const noexcept {
        std::int64_t at = 0;
        for (int i = 0; i < Rank; ++i) at += index[i] * steps[i];
        return at;
    }
};

/// Stores copies of the extents of contiguous elements, whose last stride the compiler knows to be 1.
template <int Rank>
    requires(Rank != dynamic_rank)
struct view_layout<Rank, false> {
    std::int64_t extents[static_cast<std::size_t>(Rank == 0 ? 1 : Rank)] = {};

    constexpr view_layout() = default;
    template <class View>
    constexpr explicit view_layout(View const& v) noexcept {
        for (int i = 0; i < Rank; ++i) extents[i] = v.extent(i);
    }
    [[nodiscard]] static constexpr int rank() noexcept { return Rank; }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return {extents, Rank}; }
    [[nodiscard]] static constexpr strides_view strides() noexcept { return {}; }
    [[nodiscard]] constexpr std::int64_t offset(std::int64_t const* index) const noexcept {
        std::int64_t at = 0;
        for (int i = 0; i < Rank; ++i) at = at * extents[i] + index[i];
        return at;
    }
};

/// The extents of a view without elements: an address that is always valid.
inline constexpr std::int64_t no_elements[] = {0};

/// References the extents and strides of a tensor, or of a view of static rank.
template <bool HasStrides>
struct view_layout<dynamic_rank, HasStrides> {
    shape_view extents{no_elements};
    strides_view steps;

    constexpr view_layout() = default;
    /// \param v  tensor_view or typed_view, whose lists must outlive this object
    template <class View>
    constexpr explicit view_layout(View const& v) noexcept : extents{v.shape()} {
        if constexpr (HasStrides) steps = v.strides();
    }
    [[nodiscard]] constexpr int rank() const noexcept { return extents.rank(); }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return extents; }
    [[nodiscard]] constexpr strides_view strides() const noexcept { return steps; }
    [[nodiscard]] constexpr std::int64_t offset(std::int64_t const* index) const noexcept {
        std::int64_t at = 0;
        if (!HasStrides || steps.is_implicit())
            for (int i = 0; i < rank(); ++i) at = at * extents[i] + index[i];
        else
            for (int i = 0; i < rank(); ++i) at += index[i] * steps[i];
        return at;
    }
};

/// The distance between packed elements in bits: more than their width if they are padded (R13).
struct packed_step {
    std::int64_t bits;
};
/// Other elements are adjacent: the distance is their size.
struct whole_step {
    constexpr explicit whole_step(std::int64_t) noexcept {}
};

}  // namespace ferry::inline v0::detail
