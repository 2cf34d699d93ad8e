// ferry: memory that other programs share by a bare handle, without a descriptor of ferry.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/allocation.hpp>
#include <ferry/cuda/ipc_memory.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/view.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>

namespace ferry::inline v0::cuda {

/// A tensor in memory whose exporter has nothing but a handle of cudaIpcGetMemHandle, as CuPy, Numba and frameworks
/// give out. Dropping it closes the memory, on any thread.
///
/// The handle names a whole allocation: element 0 lies `byte_offset` bytes after its begin. `layout` says the rest, its
/// device where to open it; its data is not looked at. All elements are checked to be inside of the allocation. Nothing
/// tells when the data is ready, nor tells the exporter when it may write or free: agree on that some other way. Does
/// not wait for the exporter's work.
///
/// \throws error  errc::stale_handle, already_mapped, same_process, no_peer_access, device; out_of_range: the tensor
///                reaches beyond the allocation; what `validate` finds in the layout;  std::bad_alloc
[[nodiscard]] inline managed_tensor attach_handle(ipc_handle const& handle, std::uint64_t byte_offset,
                                                  tensor_view const& layout,
                                                  std::source_location where = std::source_location::current()) {
    constexpr char const* api = "ferry::cuda::attach_handle";
    if (layout.device().type != device_type::cuda)
        ferry::detail::fail(
            errc::device, api,
            message{"the layout says "} << name(layout.device().type) << ", and such handles are of CUDA memory",
            where);
    ipc_memory memory{handle, layout.device().id, where};
    std::uint64_t const mapped = allocation_of(memory.data(), where).bytes;
    auto const refuse = [&] {
        ferry::detail::fail(errc::out_of_range, api,
                            message{"the tensor, with its first element at byte "}
                                << byte_offset << ", reaches beyond an allocation of " << mapped << " bytes",
                            where);
    };
    if (byte_offset > mapped) refuse();
    tensor_view const view{
        memory.data() + byte_offset, layout.dtype(), layout.shape(), layout.strides(), layout.device(), layout.flags()};
    ferry::detail::validate_view(view, api, where);
    auto const range = ipc::range_of(view);
    auto const before = static_cast<std::uint64_t>(range.first);
    if (before > byte_offset || range.length - before > mapped - byte_offset) refuse();
    return make_managed(std::move(memory), view, flags::none, version::current, where);
}

}  // namespace ferry::inline v0::cuda
