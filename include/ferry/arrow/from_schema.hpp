// ferry: imports of the type of a column from an ArrowSchema without an array.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/column/column.hpp>

#include <source_location>

namespace FERRY_NAMESPACE {

/// Returns an empty column with the type, names, flags and metadata of a schema, which are copied.
///
/// \param schema  schema; neither changed nor released
/// \throws error           errc::bad_column: an invalid schema; the message has the path of the node;  argument: a null
///                         pointer
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] FERRY_INLINE column from_arrow_schema(ArrowSchema const* schema,
                                                    std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/arrow/detail/from_schema.ipp>
#endif
