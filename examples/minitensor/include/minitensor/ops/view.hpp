// minitensor: views of the same elements.
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

/// The index of one dimension: an element (the result lacks the dimension; negative counts from the
/// end) or a range.
using subscript = std::variant<std::int64_t, range>;

/// t[subscripts…]; dimensions without a subscript are complete.
/// \throws std::out_of_range      too many subscripts, or one outside of its dimension
/// \throws std::invalid_argument  a packed type's first element would lie inside of a byte
[[nodiscard]] tensor index(tensor const&, std::vector<subscript> const&);

/// Dimensions in another order: `axes` is a permutation (negative axes count from the end); none
/// reverses.
[[nodiscard]] tensor transpose(tensor const&, std::vector<std::int64_t> axes = {});

/// Repeats along new leading dimensions and those of extent 1, with zero strides. Read-only, since
/// elements share memory.
[[nodiscard]] tensor broadcast_to(tensor const&, std::vector<std::int64_t> shape);

/// A read-only view of the same elements.
[[nodiscard]] tensor as_readonly(tensor const&);

}  // namespace mt
