// minitensor: tensors as text.
#pragma once

#include <minitensor/tensor.hpp>

#include <string>

namespace mt {

/// "Tensor([1, 2, 3], shape=(3), dtype=int64, device=cpu)": the values, summarised when there are
/// more than 1000.
[[nodiscard]] std::string to_string(tensor const&);

}  // namespace mt
