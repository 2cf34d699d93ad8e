// ferry: validation of columns.
#pragma once

#include <ferry/base/result.hpp>
#include <ferry/column/view.hpp>

#include <cstdint>
#include <source_location>

namespace FERRY_NAMESPACE {

/// The extent of a validation.
enum class validation : std::uint8_t {
    structure,  ///< types, lengths, counts and buffer sizes; buffers are not read
    full,       ///< also the values: offsets, lengths, indices, UTF-8 and null counts
};

/// Validates a column and its children. The structure of every column was validated when the column was created. The
/// full validation is as strict as that of Arrow C++.
///
/// Buffer sizes are checked if they are known, as for buffers that ferry allocated, buffers of other processes, and
/// data buffers of view types. Arrow's C interfaces contain no sizes, so the sizes of imported buffers and the
/// terminators of names and formats cannot be checked.
///
/// \param c      column
/// \param how    extent of the validation; full requires host memory
/// \return       `try_validate`: success, or the error
/// \throws error  errc::bad_column: invalid; the message has the path of the node;  not_accessible: the host cannot
///                read the values
#if FERRY_HAS_EXCEPTIONS
FERRY_INLINE void validate(column_view c, validation how = validation::structure,
                           std::source_location where = std::source_location::current());
#endif
[[nodiscard]] FERRY_INLINE result<> try_validate(column_view c, validation how = validation::structure,
                                                 std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/column/detail/validate.ipp>
#endif
