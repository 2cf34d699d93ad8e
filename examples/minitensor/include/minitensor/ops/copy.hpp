// minitensor: copies.
#pragma once

#include <minitensor/tensor.hpp>

#include <optional>

namespace mt {

/// Returns a contiguous row-major copy in new memory, by default on the device of the tensor. Copies to
/// and from a GPU are queued on the current stream; a copy to the host is finished on return.
[[nodiscard]] tensor copy(tensor const&, std::optional<device> = {});

/// Returns a contiguous copy on the host with elements converted by `encode`.
[[nodiscard]] tensor converted(tensor const&, dtype);

/// Returns the tensor itself if the host can read it, or else a copy on the host. Blocks until the
/// elements are ready.
[[nodiscard]] tensor on_host(tensor const&);

/// Copies strided elements if one side is on a GPU: queues the copy on a stream, or finishes it on return.
/// minitensor itself copies only contiguous elements; a program sets such a function once.
using strided_copy = void (*)(tensor const& to, tensor const& from, std::uintptr_t stream);
void use_strided_copy(strided_copy) noexcept;

namespace detail {

/// Whether work on the tensor is queued on streams.
[[nodiscard]] inline bool is_queued(tensor const& t) noexcept {
    return t.line() != nullptr && t.device().type != device::cuda_host;
}

/// Queues a copy between tensors of one shape and dtype, on the current stream of the one on a GPU.
/// `whole`: the last byte of `to` contains only bits of `to`.
void copy_queued(tensor const& to, tensor const& from, bool whole = true);

}  // namespace detail
}  // namespace mt
