// minitensor: views: the same elements, seen otherwise.
#pragma once

#include <minitensor/tensor.hpp>

#include <cstdint>
#include <variant>
#include <vector>

namespace mt {

/// Elements start, start + step, …: `length` of them.
struct range {
    std::int64_t start = 0;
    std::int64_t length = 0;
    std::int64_t step = 1;
};

/// One dimension's index: an element (the dimension goes away; negative counts from the end) or a
/// range of them.
using subscript = std::variant<std::int64_t, range>;

/// t[subscripts…]; dimensions that are not named stay whole.
/// \throws std::out_of_range      too many subscripts, or one outside of its dimension
/// \throws std::invalid_argument  a packed type's first element would lie inside of a byte
[[nodiscard]] tensor index(tensor const&, std::vector<subscript> const&);

/// Dimensions in another order: `axes` is a permutation (negative axes count from the end); none
/// reverses.
[[nodiscard]] tensor transpose(tensor const&, std::vector<std::int64_t> axes = {});

/// Repeated along new leading dimensions and those of extent 1, by zero strides. Read-only: one
/// write would show everywhere.
[[nodiscard]] tensor broadcast_to(tensor const&, std::vector<std::int64_t> shape);

/// The same view, not to be written through.
[[nodiscard]] tensor as_readonly(tensor const&);

}  // namespace mt
