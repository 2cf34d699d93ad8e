// ferry: the extents and strides of a typed view.
#pragma once

#include <ferry/base/shape.hpp>
#include <ferry/config.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace FERRY_NAMESPACE::detail {

/// Stores the extents or the strides of a view of static rank.
template <int Rank>
struct stored_dims {
    std::int64_t values[static_cast<std::size_t>(Rank == 0 ? 1 : Rank)] = {};

    constexpr operator strides_view() const noexcept { return {values, Rank}; }
};

/// Empty placeholder for strides that are not stored.
struct implicit_strides {
    constexpr operator strides_view() const noexcept { return {}; }
};

/// Stores copies of extents and strides, so that a view of static rank references only the elements. The strides of
/// contiguous elements are not stored, so that the last stride is the constant 1.
template <int Rank, bool HasStrides>
struct view_layout {
    stored_dims<Rank> extents;
    FERRY_NO_UNIQUE_ADDRESS std::conditional_t<HasStrides, stored_dims<Rank>, implicit_strides> steps;

    constexpr view_layout() = default;
    /// \param v  tensor_view or view_elements of this rank
    template <class View>
    constexpr explicit view_layout(View const& v) noexcept {
        for (int i = 0; i < Rank; ++i) set(i, v.extent(i), v.stride(i));
    }
    constexpr void set(int i, std::int64_t extent, std::int64_t step) noexcept {
        extents.values[i] = extent;
        if constexpr (HasStrides) steps.values[i] = step;
    }
    [[nodiscard]] static constexpr int rank() noexcept { return Rank; }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return {extents.values, Rank}; }
    [[nodiscard]] constexpr strides_view strides() const noexcept { return steps; }
    [[nodiscard]] constexpr std::int64_t offset(auto const& index) const noexcept {
        std::int64_t at = 0;
        for (int i = 0; i < Rank; ++i) {
            if constexpr (HasStrides) at += index[i] * steps.values[i];
            else at = at * extents.values[i] + index[i];
        }
        return at;
    }
};

/// The extents of a view without elements. The address is always valid.
inline constexpr std::int64_t no_elements[] = {0};

/// References the extents and strides of a tensor, or of a view of static rank.
template <bool HasStrides>
struct view_layout<dynamic_rank, HasStrides> {
    shape_view extents{no_elements};
    FERRY_NO_UNIQUE_ADDRESS std::conditional_t<HasStrides, strides_view, implicit_strides> steps;

    constexpr view_layout() = default;
    /// \param v  tensor_view or view_elements, whose lists must outlive this object
    template <class View>
    constexpr explicit view_layout(View const& v) noexcept : extents{v.shape()} {
        if constexpr (HasStrides) steps = v.strides();
    }
    [[nodiscard]] constexpr int rank() const noexcept { return extents.rank(); }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return extents; }
    [[nodiscard]] constexpr strides_view strides() const noexcept { return steps; }
    [[nodiscard]] constexpr std::int64_t offset(auto const& index) const noexcept {
        std::int64_t at = 0;
        if (strides().is_implicit())
            for (int i = 0; i < rank(); ++i) at = at * extents[i] + index[i];
        else
            for (int i = 0; i < rank(); ++i) at += index[i] * strides()[i];
        return at;
    }
};

}  // namespace FERRY_NAMESPACE::detail
