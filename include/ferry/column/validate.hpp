// ferry: whether what a column says of itself holds together.
#pragma once

#include <ferry/column/detail/contents.hpp>
#include <ferry/column/detail/structure.hpp>
#include <ferry/column/view.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::inline v0 {

/// How much of a column is checked.
enum class validation : std::uint8_t {
    structure,  ///< types, lengths, counts and sizes: a few comparisons for each node, and no byte of a buffer is read
    full,       ///< the values too: offsets, lengths, indices, UTF-8, counts; every byte that has a meaning is read
};

/// Checks a column and what is below it. Every column has passed the structural check when it was made. The full one is
/// as strict as Arrow's own, and takes host memory.
///
/// Sizes are checked where somebody said them: buffers of ferry's own, of other processes, data of view types. What
/// comes through Arrow's C interfaces has no sizes: that a buffer is as long as type, offset, length and last offset
/// need is the producer's word, and a name or format without an end cannot be seen.
///
/// \throws error  errc::bad_column: the node by its path, and what does not hold;  not_accessible: full, off the host
inline void validate(column_view c, validation how = validation::structure,
                     std::source_location where = std::source_location::current()) {
    detail::column_path const path{c.name()};
    detail::check_structure(c, path, "ferry::validate", where);
    if (how == validation::structure) return;
    c.require_host("ferry::validate", where);
    detail::check_contents(c, path, "ferry::validate", where);
}

}  // namespace ferry::inline v0
