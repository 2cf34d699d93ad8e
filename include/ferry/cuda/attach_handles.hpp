// ferry: imports a column from bare cudaIpcMemHandle_t of its buffers, without a ferry descriptor.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/cuda/ipc/allocation.hpp>
#include <ferry/cuda/ipc/memory.hpp>
#include <ferry/ipc/detail/column_nodes.hpp>
#include <ferry/wire/check.hpp>
#include <ferry/wire/detail/place.hpp>
#include <ferry/wire/descriptor.hpp>

#include <memory>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

namespace FERRY_NAMESPACE::cuda {

/// Imports a column, or a table, from handles of cudaIpcGetMemHandle that another program creates for the allocations
/// of the buffers, for example of a cuDF frame with one allocation for each buffer.
///
/// Each buffer of `layout` is `{handle, offset, length}`: a number in `handles`, and bytes of that allocation. A buffer
/// `{}` is absent, such as a mask without nulls. A handle may occur several times; each entry is opened. Checks
/// that every buffer is inside its allocation, and the structure of the column; reads no value. Does not synchronise.
/// Handles contain no events, so the processes must agree by other means on when the data is ready, and on when the
/// exporter may write or free it.
///
/// \param layout   format, name, length, null count, offset, buffers and children of the column
/// \param handles  the exporter's handles
/// \param on       CUDA device on which to open the memory
/// \return         read-only column; its destruction, on any thread, closes the mappings; see `ipc_memory`
/// \throws error           errc::device when `on` is not a CUDA device, or does not exist; errc::bad_descriptor when a
///                         buffer exceeds its allocation, or names no handle; errc::bad_column when buffers do not fit
///                         their format and length; errc::stale_handle, already_mapped, same_process, no_peer_access,
///                         unsupported_platform; errors of CUDA
/// \throws std::bad_alloc  when host memory cannot be allocated
[[nodiscard]] inline column attach_handles(wire::node const& layout, std::span<ipc_handle const> handles,
                                           ferry::device on,
                                           std::source_location where = std::source_location::current()) {
    constexpr char const* api = "ferry::cuda::attach_handles";
    if (on.type != device_type::cuda)
        ferry::detail::fail(errc::device, api,
                            message{"the device is of type "}
                                << name(on.type)
                                << ", expected cuda, the memory of a cudaIpcMemHandle_t: pass a CUDA device",
                            where);
    auto held = std::make_shared<std::vector<ipc_memory>>();
    std::vector<wire::memory> memories;
    std::vector<ipc::detail::memory_range> ranges;
    for (auto const& handle : handles) {
        auto const& opened = held->emplace_back(handle, on.id, where);
        auto const bytes = allocation_of(opened.data(), where).bytes;
        memories.push_back({.length = bytes});
        ranges.push_back({opened.data(), bytes, on});
    }
    static_cast<void>(wire::detail::check_node(layout, memories, 1, wire::detail::place{} / "column", {api, where}));
    if (ranges.empty()) ranges.push_back({nullptr, 0, on});  // an empty column
    return ipc::detail::column_of(layout, ranges, std::move(held), api, where);
}

}  // namespace FERRY_NAMESPACE::cuda
