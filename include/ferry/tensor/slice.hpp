// ferry: the ranges of indices that select a part of a typed view.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/tensor/detail/view_index.hpp>

#include <concepts>
#include <cstdint>
#include <source_location>

namespace ferry::inline v0 {

/// Selects indices of a dimension: those of [begin, end), in steps. `range{.step = 2}` is NumPy's `::2`.
struct range {
    /// The default of `end`: the extent of the dimension.
    static constexpr std::int64_t whole = INT64_MAX;

    std::int64_t begin = 0;    ///< first index
    std::int64_t end = whole;  ///< index after the last
    std::int64_t step = 1;     ///< distance between selected indices; if negative, the order is reversed, from end - 1
};

/// Selects all indices of a dimension.
inline constexpr range full_extent{};

namespace detail {

/// An argument of `typed_view::slice`: an index, which removes the dimension, or a range. Not required: valid bounds.
template <class S>
concept slice_argument = integral_index<S> || std::same_as<S, range>;

/// A range, with the location of the caller.
struct located_range {
    range value;
    std::source_location where;

    constexpr located_range(range r, std::source_location location = std::source_location::current()) noexcept
        : value{r}, where{location} {}
};

/// The extent and stride of a dimension, and the offset of its first element.
struct dimension {
    std::int64_t extent, stride, offset;
};

[[noreturn]] FERRY_COLD inline void fail_range(range r, int i, std::int64_t extent, char const* api,
                                               std::source_location where) {
    if (r.step == 0)
        fail(errc::argument, api, message{"the step of the range for dimension "}
                                      << i << " is 0: pass a positive step, or a negative one to reverse the order",
             where);
    fail(errc::out_of_range, api,
         message{"the range ["} << r.begin << ", " << r.end << ") is out of bounds for dimension " << i
                                << " of extent " << extent << ": pass 0 <= begin <= end <= extent",
         where);
}

/// Returns the dimension that a range selects.
///
/// \throws error  errc::out_of_range for invalid bounds; errc::argument for a step of 0
[[nodiscard]] constexpr dimension select(range r, int i, dimension d, char const* api, std::source_location where) {
    if (r.end == range::whole) r.end = d.extent;
    if (r.begin < 0 || r.begin > r.end || r.end > d.extent || r.step == 0)  // mutant: slice_bounds
        fail_range(r, i, d.extent, api, where);
    if (r.begin == r.end) return {0, d.stride, 0};  // the offset would be that of an element that does not exist
    auto const step = static_cast<std::uint64_t>(r.step);
    auto const size = static_cast<std::uint64_t>(r.end - r.begin - 1) / (r.step < 0 ? 0 - step : step);
    std::int64_t const first = r.step < 0 ? r.end - 1 : r.begin;
    // With one element, the stride is not used, and the product of stride and step may overflow.
    return {static_cast<std::int64_t>(size) + 1, size == 0 ? d.stride : d.stride * r.step, first * d.stride};
}

/// Returns the dimension that an index selects.
///
/// \throws error  errc::out_of_range for an invalid index
[[nodiscard]] constexpr dimension select(std::int64_t index, int i, dimension d, char const* api,
                                         std::source_location where) {
    if (index < 0 || index >= d.extent) fail_index(index, i, d.extent, api, where);
    return {1, 0, index * d.stride};
}

}  // namespace detail
}  // namespace ferry::inline v0
