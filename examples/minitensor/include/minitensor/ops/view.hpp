// minitensor: views of the same elements.
#pragma once

#include <minitensor/tensor.hpp>

#include <cstdint>
#include <variant>
#include <vector>

namespace mt {

/// The `length` elements start, start + step, …
struct range {
    std::int64_t start = 0;
    std::int64_t length = 0;
    std::int64_t step = 1;
};

/// The index of one dimension: an element (removes the dimension; negative counts from the end) or a
/// range of elements.
using subscript = std::variant<std::int64_t, range>;

/// Returns t[subscripts…]; dimensions without a subscript are complete.
///
/// \throws std::out_of_range      too many subscripts, or a subscript outside of its dimension
/// \throws std::invalid_argument  the first element of a packed type is not at the beginning of a byte
[[nodiscard]] tensor index(tensor const&, std::vector<subscript> const&);

/// Returns a view with the dimensions in another order. `axes` is a permutation (negative axes count from
/// the end); without axes the order is reversed.
[[nodiscard]] tensor transpose(tensor const&, std::vector<std::int64_t> axes = {});

/// Returns a view that repeats the elements, with zero strides, along new leading dimensions and dimensions
/// of extent 1. The view is read-only, because its elements share memory.
[[nodiscard]] tensor broadcast_to(tensor const&, std::vector<std::int64_t> shape);

/// Returns the same view, read-only.
[[nodiscard]] tensor as_readonly(tensor const&);

}  // namespace mt
