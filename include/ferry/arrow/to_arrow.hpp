// ferry: exports of columns by Arrow's C data interface.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/view.hpp>

#include <memory>  // shared ownership of the buffers
#include <source_location>

namespace FERRY_NAMESPACE {
namespace detail {

/// Exports a column. `may_read` is whether the host may read the validity.
[[nodiscard]] FERRY_INLINE ArrowArray make_array(column_view c, bool may_read, std::shared_ptr<void const> owner);

}  // namespace detail

/// Exports a column in host memory without a copy. The array, and each child that is moved out of it, keeps the buffers
/// alive until it is released. The null count is -1 unless it is known. Makes one allocation. Does not synchronise.
///
/// Structs, sparse unions and fixed-size lists have offset 0; their children are sliced instead, because several
/// consumers ignore the offset of a struct. Their validity is copied if it has nulls and the slice begins within a
/// byte. Arrays of other types have the offset of the slice.
///
/// Source: "Structure definitions" and "Memory management" of the Arrow C data interface.
///
/// \param c      column; the array shares its memory
/// \param out    array to write; unchanged on failure
/// \throws error           errc::not_accessible: the host cannot read the memory, which needs an ArrowDeviceArray;
///                         argument: `out` is null
/// \throws std::bad_alloc  when an allocation fails
FERRY_INLINE void to_arrow(column const& c, ArrowArray* out,
                           std::source_location where = std::source_location::current());

/// Exports the type of a column with names, flags and metadata. They are copied, so the schema does not keep the column
/// alive. Makes one allocation.
///
/// \param c      column; only its type is read
/// \param out    schema to write; unchanged on failure
/// \throws error           errc::argument: `out` is null
/// \throws std::bad_alloc  when an allocation fails
FERRY_INLINE void to_arrow_schema(column_view c, ArrowSchema* out,
                                  std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/arrow/detail/to_arrow.ipp>
#endif
