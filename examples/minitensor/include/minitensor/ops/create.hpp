// minitensor: new tensors and their values.
#pragma once

#include <minitensor/number.hpp>
#include <minitensor/tensor.hpp>

#include <cstdint>
#include <vector>

namespace mt {

/// Writes one value everywhere, converted as `encode` does. On a GPU it is queued on the current stream, whatever the strides;
/// only packed elements that are not contiguous wait for it. \throws std::invalid_argument if the tensor is read-only
void fill(tensor const&, number);

[[nodiscard]] tensor zeros(dtype, std::vector<std::int64_t> shape, device = {});

/// 0, 1, …, n − 1.
[[nodiscard]] tensor arange(std::int64_t n, dtype = int64, device = {});

}  // namespace mt
