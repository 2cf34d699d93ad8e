// ferry: whether what a column says of itself holds together.
#pragma once

#include <ferry/column/detail/structure.hpp>
#include <ferry/column/view.hpp>

#include <source_location>

namespace ferry {

/// How much of a column is checked.
enum class validation : std::uint8_t {
    structure,  ///< types, lengths, counts and sizes: a few comparisons for each node, and no byte of a buffer is read
    full,       ///< the values too: offsets, lengths, indices, UTF-8, counts; every byte that has a meaning is read
};

}  // namespace ferry
