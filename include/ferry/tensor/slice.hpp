// ferry: the ranges of indices that select a part of a typed view.
#pragma once

#include <ferry/tensor/detail/view_elements.hpp>
#include <ferry/tensor/detail/view_index.hpp>

namespace FERRY_NAMESPACE {

/// Selects the indices in [first, last) of a dimension, in steps of `stride`. `range_slice{.stride = 2}` is NumPy's
/// `::2`. Corresponds to std::range_slice of C++26, which requires a positive stride.
struct range_slice {
    /// The default of `last`: the extent of the dimension.
    static constexpr std::int64_t whole = INT64_MAX;

    std::int64_t first = 0;     ///< first index
    std::int64_t last = whole;  ///< index after the last index of the range
    std::int64_t stride = 1;    ///< distance between indices; if negative, indices count down from last - 1
};

/// The type of `full_extent`, which states at compile time that `slice` selects all indices.
struct full_extent_t {
    explicit full_extent_t() = default;
    constexpr operator range_slice() const noexcept { return {}; }
};

/// Selects all indices of a dimension, like std::full_extent.
inline constexpr full_extent_t full_extent{};

namespace detail {

/// An argument of `typed_view::slice`: an index (which removes the dimension), a range_slice or full_extent. The bounds
/// need not be valid.
template <class S>
concept slice_argument = integral_index<S> || std::same_as<S, range_slice> || std::same_as<S, full_extent_t>;

/// Returns whether a slice of compact row-major elements is compact and row-major for all extents: true if all indices
/// precede all full_extent arguments, as in std::submdspan of layout_right. False with a range_slice, whose values are
/// not known at compile time.
template <slice_argument... S>
[[nodiscard]] consteval bool is_contiguous_slice() {
    bool is_contiguous = true, is_kept = false;
    ((is_contiguous = is_contiguous && !std::same_as<S, range_slice> && !(integral_index<S> && is_kept),
      is_kept = is_kept || !integral_index<S>),
     ...);
    return is_contiguous;
}

/// A range_slice or full_extent with the location of the caller, which cannot be a default argument after a parameter
/// pack.
template <class S>
struct located_slice {
    S value;
    std::source_location where;

    constexpr located_slice(S s, std::source_location location = std::source_location::current()) noexcept
        : value{s}, where{location} {}
};

/// The extent and stride of a dimension, and the offset of its first element.
struct dimension {
    std::int64_t extent, stride, offset;
};

[[nodiscard]] FERRY_COLD inline bool report_range(range_slice s, int i, std::int64_t extent, reporter r) {
    if (s.stride == 0)
        return report(r, errc::argument,
                      message{"the stride of the range_slice for dimension "}
                          << i << " is 0: pass a positive stride, or a negative one to reverse the order");
    message text{"the range ["};
    text << s.first << ", ";
    if (s.last == range_slice::whole) text << "whole";
    else text << s.last;
    return report(r, errc::out_of_range,
                  text << ") is out of bounds for dimension " << i << " of extent " << extent
                       << ": pass 0 <= first <= last <= extent");
}

/// Restricts a dimension to those indices that a range_slice selects. Fails for invalid bounds and for a stride of 0.
[[nodiscard]] constexpr bool select(range_slice s, int i, dimension& d, reporter r) {
    std::int64_t const last = s.last == range_slice::whole ? d.extent : s.last;
    if (s.first < 0 || s.first > last || last > d.extent || s.stride == 0)
        return report_range(s, i, d.extent, r);
    if (s.first == last) {
        d = {0, d.stride, 0};  // offset 0, because there is no first element
        return true;
    }
    auto const step = static_cast<std::uint64_t>(s.stride);
    auto const size = static_cast<std::uint64_t>(last - s.first - 1) / (s.stride < 0 ? 0 - step : step);
    std::int64_t const first = s.stride < 0 ? last - 1 : s.first;
    // With one element, the stride is not used, and the product of the strides may overflow.
    d = {static_cast<std::int64_t>(size) + 1, size == 0 ? d.stride : d.stride * s.stride, first * d.stride};
    return true;
}

/// Restricts a dimension to one index. Fails for an invalid index.
[[nodiscard]] constexpr bool select(std::int64_t index, int i, dimension& d, reporter r) {
    if (index < 0 || index >= d.extent) return report_index(index, i, d.extent, r);
    d = {1, 0, index * d.stride};
    return true;
}

/// Returns the elements selected by one index or slice for each dimension; if an error is reported, the elements are
/// unspecified. Fails as `select` does, and when the first packed element does not begin on a byte boundary.
template <class T, int Rank, bool HasStrides, class... Selected>
[[nodiscard]] constexpr auto slice_of(view_elements<T, Rank, HasStrides> const& all, reporter r, Selected... selected) {
    constexpr int kept = (0 + ... + (integral_index<Selected> ? 0 : 1));
    view_elements<T, kept, HasStrides || !is_contiguous_slice<Selected...>()> out;
    out.data = all.data;
    out.step = all.step;
    bool const is_empty = all.size() == 0;  // the strides may then have any value (R26)
    std::int64_t offset = 0;
    int from = 0, to = 0;
    auto const add = [&]<class S>(S s) {
        int const i = from++;
        dimension d{all.extent(i), is_empty ? 0 : all.stride(i), 0};
        if constexpr (integral_index<S>) {
            if (!select(static_cast<std::int64_t>(s), i, d, r)) return false;
        } else {
            if constexpr (std::same_as<S, range_slice>)
                if (!select(s, i, d, r)) return false;
            out.layout.set(to++, d.extent, d.stride);
        }
        offset += d.offset;
        return true;
    };
    if ((add(selected) && ...) && out.size() != 0) static_cast<void>(out.advance(offset, r));
    return out;
}

}  // namespace detail
}  // namespace FERRY_NAMESPACE
