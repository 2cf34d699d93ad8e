// ferry: validation of columns.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/result.hpp>
#include <ferry/column/detail/contents.hpp>
#include <ferry/column/detail/structure.hpp>
#include <ferry/column/view.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::inline FERRY_ABI_NAMESPACE {

/// The extent of a validation.
enum class validation : std::uint8_t {
    structure,  ///< types, lengths, counts and buffer sizes; buffers are not read
    full,       ///< also the values: offsets, lengths, indices, UTF-8 and null counts
};

namespace detail {

[[nodiscard]] inline bool check_column(column_view c, validation how, reporter r) {
    column_path const path{c.name()};
    return check_structure(c, path, r) &&
           (how == validation::structure || (check_host(c, r) && check_contents(c, path, r)));
}

}  // namespace detail

/// Validates a column and its children. The structure of every column was validated when the column was created. The
/// full validation is as strict as that of Arrow C++.
///
/// Buffer sizes are checked if they are known: for buffers that ferry allocated, of other processes, and data buffers
/// of view types. Arrow's C interfaces contain no sizes, so the sizes of imported buffers and the terminators of names
/// and formats cannot be checked.
///
/// \param c      column
/// \param how    extent of the validation; full requires host memory
/// \param where  source location of the caller
/// \return       `try_validate`: success, or the error
/// \throws error  errc::bad_column: invalid; the message has the path of the node;  not_accessible: the host cannot
///                read the values
#if FERRY_HAS_EXCEPTIONS
inline void validate(column_view c, validation how = validation::structure,
                     std::source_location where = std::source_location::current()) {
    static_cast<void>(detail::check_column(c, how, {"ferry::validate", where}));
}
#endif
[[nodiscard]] inline result<> try_validate(column_view c, validation how = validation::structure,
                                           std::source_location where = std::source_location::current()) {
    return detail::attempt<void>("ferry::validate", where,
                                 [&](detail::reporter r) { return detail::check_column(c, how, r); });
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE
