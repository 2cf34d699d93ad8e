// minitensor: views of the same elements.
#pragma once

#include <minitensor/tensor.hpp>

#include <cstdint>
#include <variant>
#include <vector>

namespace mt {

/// A range of `length` indices: start, start + step, …
struct range {
    std::int64_t start = 0;
    std::int64_t length = 0;
    std::int64_t step = 1;
};

/// The index of one dimension: an element, which removes the dimension (a negative index counts from the end), or a
/// range.
using subscript = std::variant<std::int64_t, range>;

/// Returns the view t[subscripts…]; dimensions without a subscript are kept.
///
/// \throws std::out_of_range      too many subscripts, or one outside of its dimension
/// \throws std::invalid_argument  the first element of a packed type would begin within a byte
[[nodiscard]] tensor index(tensor const&, std::vector<subscript> const&);

/// Returns a view with the dimensions in another order: `axes` is a permutation (negative axes count from the end);
/// without axes, the order is reversed.
[[nodiscard]] tensor transpose(tensor const&, std::vector<std::int64_t> axes = {});

/// Returns a view that is repeated along new leading dimensions and along dimensions of extent 1, with zero strides.
/// The view is read-only, because its elements share memory.
[[nodiscard]] tensor broadcast_to(tensor const&, std::vector<std::int64_t> shape);

/// Returns a read-only view of the same elements.
[[nodiscard]] tensor as_readonly(tensor const&);

}  // namespace mt
