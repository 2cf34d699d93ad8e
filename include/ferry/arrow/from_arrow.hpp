// ferry: imports of columns by Arrow's C data interface.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/device.hpp>
#include <ferry/column/column.hpp>

#include <memory>  // the tree is shared
#include <source_location>

namespace FERRY_NAMESPACE {
namespace detail {

/// The tree of an import, whose buffers the foreign array keeps alive.
struct imported_tree;

/// Returns the validated tree of a foreign array, without moving the array.
[[nodiscard]] FERRY_INLINE std::shared_ptr<imported_tree> read_arrow(ArrowArray const* array, ArrowSchema const* schema,
                                                                     device on, char const* api,
                                                                     std::source_location where);
/// Moves the array into the tree by a bitwise copy, and sets `release` of the source to null.
FERRY_INLINE column take_arrow(std::shared_ptr<imported_tree> tree, ArrowArray* array) noexcept;
FERRY_INLINE void release_schema(ArrowSchema* schema) noexcept;

}  // namespace detail

/// Imports an array in host memory without a copy of the data; names, formats and metadata are copied.
///
/// On success the column owns the array and releases it with the last copy, slice, child or export, on any thread. The
/// schema is released, and `release` of both structs is null. Validates the structure; buffers are not read, except the
/// lengths of the data buffers of view types. Does not synchronise.
///
/// The interface contains no buffer sizes, so the size of a buffer, the terminator of a text and the validity of a
/// pointer cannot be checked. To check the values call validate with validation::full.
///
/// Source: "Structure definitions" and "Moving an array" of the Arrow C data interface.
///
/// \param array   array; moved from on success, unchanged on failure
/// \param schema  its type; released on success, unchanged on failure
/// \throws error           errc::bad_column: an invalid array or schema; the message has the path of the node;
///                         argument: a null pointer
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] FERRY_INLINE column from_arrow(ArrowArray* array, ArrowSchema* schema,
                                             std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/arrow/detail/from_arrow.ipp>
#endif
