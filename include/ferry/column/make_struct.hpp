// ferry: a struct column, or table, from existing columns.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/result.hpp>
#include <ferry/column/column.hpp>

#include <source_location>
#include <span>
#include <string_view>

namespace FERRY_NAMESPACE {
namespace detail {

/// Implements make_struct; `parts` has the name, flags and metadata of the struct. Returns an empty column on failure.
[[nodiscard]] FERRY_INLINE column join(column_parts parts, std::span<column const> children, reporter r);

}  // namespace detail

/// Creates a struct column, or table, from columns, which may be on different devices. Copies no buffer; the new column
/// keeps the memory of its children. It has no nulls of its own. Does not check values and does not synchronise.
///
/// A column whose nodes are on several devices can be sliced, shared (`ferry::ipc::share`) and moved to one device
/// (`to`), and its children can be used separately. Exports by Arrow's interfaces require one device.
///
/// \param children  columns of one length, with their names
/// \param name      name of the struct
/// \return          column; `try_make_struct` returns the column or the error
/// \throws error           errc::bad_column: children of different lengths; the message has the path of the child
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] FERRY_INLINE column make_struct(std::span<column const> children, std::string_view name = {},
                                              std::source_location where = std::source_location::current());
#endif
[[nodiscard]] FERRY_INLINE result<column> try_make_struct(std::span<column const> children, std::string_view name = {},
                                                          std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/column/detail/make_struct.ipp>
#endif
