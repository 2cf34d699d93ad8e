// minitensor: new tensors and their values.
#pragma once

#include <minitensor/number.hpp>
#include <minitensor/tensor.hpp>

#include <cstdint>
#include <vector>

namespace mt {

/// Sets all elements to a value, converted as by `encode`. On a GPU the work is queued on the current stream; blocks
/// only for packed elements that are not contiguous. \throws std::invalid_argument if the tensor is read-only
void fill(tensor const&, number);

[[nodiscard]] tensor zeros(dtype, std::vector<std::int64_t> shape, device = {});

/// Returns a tensor with the elements 0, 1, …, n − 1.
[[nodiscard]] tensor arange(std::int64_t n, dtype = int64, device = {});

}  // namespace mt
