// minitensor: copies.
#pragma once

#include <minitensor/tensor.hpp>

#include <optional>

namespace mt {

/// A contiguous row-major copy in fresh memory, on the tensor's own device unless another is named.
/// To and from a GPU it is queued on the current stream; a copy to the host is finished.
[[nodiscard]] tensor copy(tensor const&, std::optional<device> = {});

/// A contiguous copy on the host whose elements are converted, as `encode` does.
[[nodiscard]] tensor converted(tensor const&, dtype);

/// The same elements in memory that the host can read: the tensor itself, or a copy. Blocks.
[[nodiscard]] tensor on_host(tensor const&);

/// How strided elements are copied when one side is on a GPU: queued on a stream, or done on return.
/// minitensor copies only contiguous tensors; the application installs a function for the others.
using strided_copy = void (*)(tensor const& to, tensor const& from, std::uintptr_t stream);
void use_strided_copy(strided_copy) noexcept;

namespace detail {

/// Whether work on the tensor is queued on streams.
[[nodiscard]] inline bool is_queued(tensor const& t) noexcept {
    return t.line() != nullptr && t.device().type != device::cuda_host;
}

/// Queues a copy between tensors of one shape and dtype, on the current stream of the one on a GPU. `whole`: the last
/// byte of `to` has no bits of other tensors.
void copy_queued(tensor const& to, tensor const& from, bool whole = true);

}  // namespace detail
}  // namespace mt
