// ferry: other representations of a column's values: wider or narrower offsets, integers and decimals, other layouts of
// text and lists, and dictionaries as their values. Requires exceptions.
#pragma once

#include <ferry/config.hpp>

#if FERRY_HAS_EXCEPTIONS
#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/result.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/view.hpp>

#include <cstdint>
#include <source_location>
#include <string_view>

namespace FERRY_NAMESPACE {
namespace detail {

/// What `convert_column` does with a node that has no such conversion, or a value that does not fit: it fails, or keeps
/// the type of the node.
enum class unconvertible : std::uint8_t { fails, stays };

[[nodiscard]] FERRY_INLINE column convert_column(column const& c, column_view type, unconvertible those,
                                                 char const* api, std::source_location where);
[[nodiscard]] FERRY_INLINE column convert_column(column const& c, std::string_view format, char const* api,
                                                 std::source_location where);

}  // namespace detail

/// Returns the values of a column in host memory in the representation of another type. Converts
/// - string, large_string and string_view to each other and to the binary types; the binary types to each other;
/// - list, large_list, list_view and large_list_view to each other;
/// - a dictionary-encoded column to its values, or to other types of indices and values;
/// - integers to other integers, and decimals to another width or precision with the same scale;
/// - children and dictionaries in the same way, at any depth.
///
/// Shares each buffer that stays the same, validity and text included, and the memory of a column that has the type
/// already, which is returned unchanged, on any device. Other values are never changed: a value that does not fit is an
/// error, except where the item is null. Names, nullability and metadata stay. No work may be pending on the column.
///
/// \param c       column
/// \param type    column of the type, such as the result of `from_arrow_schema`; its items are not read. A type without
///                children stands for those of the column
/// \return        column; `try_as` returns the column or the error
/// \throws error           errc::dtype: there is no such conversion; the message has the path of the node;
///                         out_of_range: a value that does not fit, with its item;  overflow: more bytes or items than
///                         offsets of 32 bits can count;  bad_column: invalid offsets, indices or views;
///                         not_accessible: the host cannot read the memory: use `to(cpu)` first
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline column as(column const& c, column_view type,
                               std::source_location where = std::source_location::current()) {
    return detail::convert_column(c, type, detail::unconvertible::fails, "ferry::as", where);
}
/// \param c       column
/// \param format  Arrow format string, such as `"U"` or `"+L"`; children stay as they are
/// \throws error  errc::argument: not a format of Arrow
[[nodiscard]] inline column as(column const& c, std::string_view format,
                               std::source_location where = std::source_location::current()) {
    return detail::convert_column(c, format, "ferry::as", where);
}
[[nodiscard]] inline result<column> try_as(column const& c, column_view type,
                                           std::source_location where = std::source_location::current()) {
    return detail::attempt<column>("ferry::as", where, [&](detail::reporter) { return as(c, type, where); });
}
[[nodiscard]] inline result<column> try_as(column const& c, std::string_view format,
                                           std::source_location where = std::source_location::current()) {
    return detail::attempt<column>("ferry::as", where, [&](detail::reporter) { return as(c, format, where); });
}

/// Returns a column in the representation that a consumer requested, as far as `as` converts it: a node that has no
/// such conversion, a value that does not fit, or an invalid buffer, keeps its type. So does an extension type, unless
/// the same one is requested, and a column that the host cannot read. Source: `requested_schema` of Arrow's PyCapsule
/// interface.
///
/// \param c          column
/// \param requested  column of the requested type, such as the result of `from_arrow_schema`; its items are not read
/// \return           column. Nothing is an error, except that an allocation that fails throws std::bad_alloc
[[nodiscard]] inline column as_requested(column const& c, column_view requested,
                                         std::source_location where = std::source_location::current()) {
    return detail::convert_column(c, requested, detail::unconvertible::stays, "ferry::as_requested", where);
}

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/column/detail/as.ipp>
#endif
#endif
