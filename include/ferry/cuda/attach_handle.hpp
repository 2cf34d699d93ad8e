// ferry: imports memory from a bare cudaIpcMemHandle_t, without a ferry descriptor.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/ipc/allocation.hpp>
#include <ferry/cuda/ipc/memory.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/view.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE::cuda {

/// Imports device memory from a handle that cudaIpcGetMemHandle returned. CuPy, Numba and other frameworks export such
/// handles.
///
/// The handle identifies a whole allocation; element 0 is at offset `byte_offset` in the allocation. Checks that every
/// element is inside the allocation. Does not synchronise. The handle contains no event, so the processes must agree by
/// other means on when the data is ready, and on when the exporter may write or free it.
///
/// \param handle       the exporter's handle
/// \param byte_offset  offset of element 0 in the allocation
/// \param layout       dtype, shape, strides, flags, and the device on which to open the memory; its data pointer is
///                     not used
/// \return             a tensor whose destruction, on any thread, closes the mapping; see `ipc_memory`
/// \throws error           errc::stale_handle, already_mapped, same_process, no_peer_access, unsupported_platform;
///                         errc::device when the layout's device is not a CUDA device, or does not exist;
///                         errc::out_of_range when the tensor exceeds the allocation; errc::strides when the number of
///                         strides differs from the rank; errors of `validate` for the layout; errors of CUDA
/// \throws std::bad_alloc  when host memory cannot be allocated
[[nodiscard]] inline managed_tensor attach_handle(ipc_handle const& handle, std::uint64_t byte_offset,
                                                  tensor_view const& layout,
                                                  std::source_location where = std::source_location::current()) {
    constexpr char const* api = "ferry::cuda::attach_handle";
    if (layout.device().type != device_type::cuda)
        ferry::detail::fail(
            errc::device, api,
            message{"the layout has device type "}
                << name(layout.device().type)
                << ", expected cuda, the memory of a cudaIpcMemHandle_t: pass a layout on a CUDA device",
            where);
    ipc_memory memory{handle, layout.device().id, where};
    std::uint64_t const mapped = allocation_of(memory.data(), where).bytes;
    auto const refuse = [&] {
        ferry::detail::fail(errc::out_of_range, api,
                            message{"the tensor exceeds the allocation: its first element is at byte "}
                                << byte_offset << " of " << mapped << ": check byte_offset, shape and strides",
                            where);
    };
    if (byte_offset > mapped) refuse();
    tensor_view const view{
        memory.data() + byte_offset, layout.dtype(), layout.shape(), layout.strides(), layout.device(), layout.flags()};
    static_cast<void>(ferry::detail::check_view(view, {api, where}));
    auto const range = ipc::range_of(view);
    auto const before = static_cast<std::uint64_t>(range.first);
    if (before > byte_offset || range.length - before > mapped - byte_offset) refuse();
    return make_managed(std::move(memory), view, flags::none, version::current, where);
}

}  // namespace FERRY_NAMESPACE::cuda
