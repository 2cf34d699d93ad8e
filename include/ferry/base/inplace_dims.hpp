// ferry: a list of extents or strides that stores its values; constructed from integers of any type.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/result.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>

namespace FERRY_NAMESPACE {
namespace detail {

/// A contiguous container of integers of any type, or the extents of an mdspan. Iterators are not required.
template <class List>
concept dimension_list = any_integer_list<List> || mdspan_extents<List>;

/// An extent or stride with the location of the caller, which cannot be a default argument after a parameter pack.
struct located_extent {
    std::int64_t value;
    bool is_too_large;  // the argument exceeds the maximum of std::int64_t, and `value` has wrapped
    std::source_location where;

    template <extent_integer Int>
    constexpr located_extent(Int extent, std::source_location location = std::source_location::current()) noexcept
        : value{static_cast<std::int64_t>(extent)},
          is_too_large{std::is_unsigned_v<Int> && value < 0},
          where{location} {}
};

}  // namespace detail

/// A list of at most `MaxRank` extents or strides, stored in the object.
///
/// Converts from the lists that array libraries use: integers in braces; an array, vector or span of integers of any
/// type; or the extents of an mdspan. Does not allocate. Copyable; an lvalue converts to shape_view and strides_view.
template <int MaxRank>
class inplace_dims {
    static_assert(MaxRank >= 0, "ferry: the maximum rank must not be negative");

   public:
    /// Constructs an empty list: extents of rank 0, or, as the strides of an inplace_view, compact row-major strides.
    constexpr inplace_dims() = default;
    /// Constructs a list of integers: `{rows, columns}`.
    ///
    /// \param first  integer
    /// \param rest   other integers; at most `MaxRank - 1`
    /// \throws error  errc::overflow when a value exceeds the maximum of std::int64_t (R32). Without exceptions, such a
    ///                value becomes the minimum of std::int64_t, which exports reject.
    template <detail::extent_integer... Int>
    constexpr inplace_dims(detail::located_extent first, Int... rest) {
        static_assert(1 + sizeof...(Int) <= MaxRank,
                      "ferry: the list has more values than N of ferry::inplace_dims<N> or ferry::inplace_view<N>: "
                      "increase N");
        append(first, first.where);
        (append(rest, first.where), ...);
    }
    /// Constructs a list of the values of an array.
    ///
    /// \param values  array; only read during the call
    /// \throws error  errc::overflow when a value exceeds the maximum of std::int64_t (R32). Without exceptions, such a
    ///                value becomes the minimum of std::int64_t, which exports reject.
    template <detail::extent_integer Int, std::size_t N>
    constexpr inplace_dims(Int const (&values)[N], std::source_location where = std::source_location::current()) {
        static_assert(N <= MaxRank,
                      "ferry: the list has more values than N of ferry::inplace_dims<N> or ferry::inplace_view<N>: "
                      "increase N");
        for (auto const value : values) append(value, where);
    }
    /// Constructs a list of the values of a contiguous container, or of the extents of an mdspan.
    ///
    /// \param values  container of integers, such as std::vector, std::array, std::span or shape_view, or the extents
    ///                of any mdspan; only read during the call
    /// \throws error  errc::rank for more than `MaxRank` values; errc::shape when the data pointer of a non-empty list
    ///                is null (R25); errc::overflow when a value exceeds the maximum of std::int64_t (R32)
#if FERRY_HAS_EXCEPTIONS
    template <detail::dimension_list List>
    constexpr inplace_dims(List const& values, std::source_location where = std::source_location::current()) {
        static_cast<void>(assign(values, {"ferry::inplace_dims", where}));
    }
#endif
    /// Constructs a list like the constructor, but returns errors instead of throwing them.
    ///
    /// \param values  container of integers, or extents of an mdspan; only read during the call
    /// \return        list, or the error that the constructor throws
    template <detail::dimension_list List>
    [[nodiscard]] static result<inplace_dims> try_make(
        List const& values, std::source_location where = std::source_location::current()) {
        detail::record to{"ferry::inplace_dims", where};
        inplace_dims list;
        if (!list.assign(values, to)) return to.outcome.error();
        return list;
    }

    // clang-format off
    template <class... Value>
        requires(detail::refused_extent<Value> || ...)
    inplace_dims(Value...) FERRY_DELETED("an extent or stride is an integer of at most 64 bits, not a bool, a character or a floating-point number: convert it to std::int64_t");
    template <detail::refused_extent Value, std::size_t N>
    inplace_dims(Value const (&)[N]) FERRY_DELETED("an extent or stride is an integer of at most 64 bits, not a bool, a character or a floating-point number: convert it to std::int64_t");
    template <detail::refused_extent_list List>
    inplace_dims(List const&) FERRY_DELETED("an extent or stride is an integer of at most 64 bits, not a bool, a character or a floating-point number: convert it to std::int64_t");
    // clang-format on

    /// Returns the address of the first value.
    [[nodiscard]] constexpr std::int64_t const* data() const noexcept { return values_; }
    /// Returns the number of values.
    [[nodiscard]] constexpr std::size_t size() const noexcept { return static_cast<std::size_t>(rank_); }
    /// Returns the number of values.
    [[nodiscard]] constexpr int rank() const noexcept { return rank_; }
    /// Returns the value of a dimension. Does not check the index.
    ///
    /// \param i  dimension; at least 0 and less than the rank
    /// \return   value
    [[nodiscard]] constexpr std::int64_t operator[](int i) const noexcept { return values_[i]; }
    [[nodiscard]] constexpr std::int64_t& operator[](int i) noexcept { return values_[i]; }
    [[nodiscard]] constexpr std::int64_t const* begin() const noexcept { return values_; }
    [[nodiscard]] constexpr std::int64_t const* end() const noexcept { return values_ + rank_; }

    friend constexpr bool operator==(inplace_dims const&, inplace_dims const&) = default;

   private:
    [[nodiscard]] static constexpr bool check_room(std::size_t count, detail::reporter r) {
        return count <= static_cast<std::size_t>(MaxRank) ||
               report(r, errc::rank,
                      message{"the rank is "} << static_cast<std::int64_t>(count) << ", expected at most " << MaxRank
                                              << ": combine dimensions, or use a larger MaxRank");
    }
    [[nodiscard]] constexpr bool append(detail::located_extent extent, detail::reporter r) {
        if (extent.is_too_large)
            return report(r, errc::overflow,
                          message{"the value of dimension "}
                              << rank_ << " is " << static_cast<std::uint64_t>(extent.value)
                              << ", expected at most the maximum of std::int64_t (R32): pass a value that fits");
        values_[rank_++] = extent.value;
        return true;
    }
    /// Appends a value of a list whose length is known at compile time.
    constexpr void append(detail::located_extent extent, std::source_location where) {
#if FERRY_HAS_EXCEPTIONS
        static_cast<void>(append(extent, detail::reporter{"ferry::inplace_dims", where}));
#else
        static_cast<void>(where);
        values_[rank_++] = extent.is_too_large ? INT64_MIN : extent.value;
#endif
    }
    template <detail::any_integer_list List>
    [[nodiscard]] constexpr bool assign(List const& values, detail::reporter r) {
        auto const* const data = detail::list_data(values);
        auto const count = static_cast<std::size_t>(values.size());
        if (count > 0 && data == nullptr)
            return report(r, errc::shape,
                          message{"the list is NULL, but the rank is "}
                              << static_cast<std::int64_t>(count)
                              << "; only a list of rank 0 may be NULL (R25): pass one value for each dimension");
        if (!check_room(count, r)) return false;
        for (std::size_t i = 0; i < count; ++i)
            if (!append(data[i], r)) return false;
        return true;
    }
    template <detail::mdspan_extents Extents>
    [[nodiscard]] constexpr bool assign(Extents const& extents, detail::reporter r) {
        if (!check_room(Extents::rank(), r)) return false;
        for (typename Extents::rank_type i = 0; i < Extents::rank(); ++i)
            if (!append(extents.extent(i), r)) return false;
        return true;
    }

    std::int64_t values_[static_cast<std::size_t>(MaxRank > 0 ? MaxRank : 1)] = {};
    int rank_ = 0;
};

namespace detail {

template <int MaxRank>
[[nodiscard]] constexpr inplace_dims<MaxRank> element_strides(inplace_dims<MaxRank> bytes, std::size_t item_bytes,
                                                              reporter r) {
    auto strides = bytes;
    auto const item = static_cast<std::int64_t>(item_bytes);
    if (bytes.rank() != 0 && !to_element_strides({bytes.data(), bytes.rank()}, item, &strides[0]))
        static_cast<void>(report(r, errc::strides,
                                 message{"a stride is not a multiple of the element size, "}
                                     << item << " bytes (R30): copy the array before the export"));
    return strides;
}

}  // namespace detail

/// Converts strides in bytes, as used by NumPy, OpenCV and the buffer protocol, to strides in elements.
///
/// \param bytes       strides in bytes
/// \param item_bytes  size of an element in bytes
/// \return            strides in elements; `try_element_strides` returns the strides or the error
/// \throws error  errc::strides when a stride is not a multiple of the element size, which DLPack cannot express (R30),
///                or the element size is 0
#if FERRY_HAS_EXCEPTIONS
template <int MaxRank>
[[nodiscard]] constexpr inplace_dims<MaxRank> element_strides(
    inplace_dims<MaxRank> bytes, std::size_t item_bytes, std::source_location where = std::source_location::current()) {
    return detail::element_strides(bytes, item_bytes, {"ferry::element_strides", where});
}
#endif
template <int MaxRank>
[[nodiscard]] result<inplace_dims<MaxRank>> try_element_strides(
    inplace_dims<MaxRank> bytes, std::size_t item_bytes, std::source_location where = std::source_location::current()) {
    return detail::attempt<inplace_dims<MaxRank>>(
        "ferry::element_strides", where, [&](detail::reporter r) { return detail::element_strides(bytes, item_bytes, r); });
}

}  // namespace FERRY_NAMESPACE
