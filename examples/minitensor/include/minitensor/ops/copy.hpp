// minitensor: copies.
#pragma once

#include <minitensor/tensor.hpp>

#include <optional>

namespace mt {

/// A contiguous row-major copy in fresh memory, on the tensor's own device unless another is named.
[[nodiscard]] tensor copy(tensor const&, std::optional<device> = {});

/// A contiguous copy on the host whose elements are converted, as `encode` does. The tensor must be
/// readable by the host.
[[nodiscard]] tensor converted(tensor const&, dtype);

/// \throws buffer_error  the host cannot read the tensor; the message starts with `what`
void require_host(tensor const&, char const* what);

}  // namespace mt
