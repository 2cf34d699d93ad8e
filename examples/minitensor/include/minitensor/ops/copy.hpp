// minitensor: copies.
#pragma once

#include <minitensor/tensor.hpp>

#include <optional>

namespace mt {

/// Returns a contiguous row-major copy in new memory, on the device of the tensor unless another is given. A copy to or
/// from a GPU is queued on the current stream; a copy to the host is complete on return.
[[nodiscard]] tensor copy(tensor const&, std::optional<device> = {});

/// Returns a contiguous copy on the host with its elements converted as by `encode`.
[[nodiscard]] tensor converted(tensor const&, dtype);

/// Returns the elements in memory that the host can read: the tensor itself, or a copy. Blocks until they are ready.
[[nodiscard]] tensor on_host(tensor const&);

/// A function that copies strided elements to or from a GPU, queued on a stream or complete on return. minitensor
/// copies only contiguous tensors; an application that needs other copies installs such a function.
using strided_copy = void (*)(tensor const& to, tensor const& from, std::uintptr_t stream);
void use_strided_copy(strided_copy) noexcept;

namespace detail {

/// Returns whether work on the tensor is queued on streams.
[[nodiscard]] inline bool is_queued(tensor const& t) noexcept {
    return t.line() != nullptr && t.device().type != device::cuda_host;
}

/// Queues a copy between tensors of the same shape and dtype, on the current stream of the GPU that holds one of them.
/// `whole`: the last byte of `to` has no bits of other tensors.
void copy_queued(tensor const& to, tensor const& from, bool whole = true);

}  // namespace detail
}  // namespace mt
