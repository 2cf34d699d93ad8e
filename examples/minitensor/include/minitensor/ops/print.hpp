// minitensor: tensors as text.
#pragma once

#include <minitensor/tensor.hpp>

#include <string>

namespace mt {

/// Returns the text of a tensor, for example "Tensor([1, 2, 3], shape=(3), dtype=int64, device=cpu)".
/// Tensors of more than 1000 elements are summarised.
[[nodiscard]] std::string to_string(tensor const&);

}  // namespace mt
