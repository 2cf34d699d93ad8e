// ferry: exports of columns by Arrow's C stream interface.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/column/column.hpp>

#include <source_location>
#include <vector>  // the chunks

namespace FERRY_NAMESPACE {
/// Exports chunks of one type, or none, as an ArrowArrayStream without a copy. The stream owns a chunk until the
/// consumer reads it. A field is nullable in the schema if it is in a chunk.
///
/// Source: "Structure definition" and "Error codes" of the Arrow C stream interface.
///
/// \param chunks  columns in host memory
/// \param type    column of the type of the chunks; only its type is used
/// \param out     stream to write; unchanged on failure
/// \throws error           errc::argument: a chunk of another type, or `out` is null;  not_accessible: the host cannot
///                         read a chunk
/// \throws std::bad_alloc  when an allocation fails
FERRY_INLINE void to_arrow_stream(std::vector<column> chunks, column const& type, ArrowArrayStream* out,
                                  std::source_location where = std::source_location::current());

/// Exports chunks of one type, at least one. The schema has the names and metadata of the first.
///
/// \param chunks  columns in host memory
/// \param out     stream to write; unchanged on failure
/// \throws error           errc::argument: no chunks;  as the overload with a type
/// \throws std::bad_alloc  when an allocation fails
FERRY_INLINE void to_arrow_stream(std::vector<column> chunks, ArrowArrayStream* out,
                                  std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/arrow/detail/to_stream.ipp>
#endif
