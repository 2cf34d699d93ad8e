// ferry: the indices of typed views.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <type_traits>

namespace FERRY_NAMESPACE::detail {

/// An integer or an unscoped enumerator. The value need not fit in std::int64_t.
template <class I>
concept integral_index =
    (std::integral<I> || std::is_enum_v<I>) && std::convertible_to<I, std::int64_t> && !std::same_as<I, bool>;

/// A bool or a floating-point number, which would otherwise be converted without a warning.
template <class I>
concept refused_index = std::floating_point<I> || std::same_as<I, bool>;

/// An index with the location of the caller, which cannot be a default argument after a parameter pack.
struct located_index {
    std::int64_t value;
    std::source_location where;

    template <integral_index I>
    constexpr located_index(I i, std::source_location location = std::source_location::current()) noexcept
        : value{static_cast<std::int64_t>(i)}, where{location} {}
};

/// An index in braces. A std::int64_t in its place would not accept a std::size_t, which narrows.
struct braced_index {
    std::int64_t value;

    template <integral_index I>
    constexpr braced_index(I i) noexcept : value{static_cast<std::int64_t>(i)} {}
    // clang-format off
    template <refused_index I>
    braced_index(I) FERRY_DELETED("an index is an integer, not a bool or a floating-point number: convert it to std::int64_t");
    // clang-format on
};

/// References a list of indices, one for each dimension. Contains the location of the caller.
struct index_list {
    std::int64_t const* values;
    braced_index const* braced = nullptr;  // if not null, the list; `values` is null
    int count;
    std::source_location where;

    template <integer_list Range>
    constexpr index_list(Range const& list, std::source_location location = std::source_location::current()) noexcept
        : values{list.data()}, count{static_cast<int>(list.size())}, where{location} {}
    template <std::size_t N>
    constexpr index_list(std::int64_t const (&list)[N],
                         std::source_location location = std::source_location::current()) noexcept
        : values{list}, count{static_cast<int>(N)}, where{location} {}
    constexpr index_list(std::initializer_list<braced_index> list,
                         std::source_location location = std::source_location::current()) noexcept
        : values{nullptr}, braced{list.begin()}, count{static_cast<int>(list.size())}, where{location} {}

    [[nodiscard]] constexpr std::int64_t operator[](int i) const noexcept {
        return braced != nullptr ? braced[i].value : values[i];
    }
};

[[nodiscard]] FERRY_COLD inline bool report_index_count(int count, int rank, reporter r) {
    return report(r, errc::rank,
                  message{} << count << " indices for a tensor of rank " << rank << ": pass one index for each dimension");
}

[[nodiscard]] FERRY_COLD inline bool report_index(std::int64_t index, int dimension, std::int64_t extent, reporter r) {
    return report(r, errc::out_of_range,
                  message{"index "} << index << " is out of range for dimension " << dimension << " of extent " << extent
                                    << ": pass an index that is at least 0 and less than the extent");
}

}  // namespace FERRY_NAMESPACE::detail
