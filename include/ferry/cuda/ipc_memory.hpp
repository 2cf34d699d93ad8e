// ferry: device memory of other processes by the runtime's own 64-byte handles.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/allocation.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <utility>

namespace ferry::inline v0::cuda {

/// The bytes of a cudaIpcMemHandle_t or cudaIpcEventHandle_t: plain data, which any text may carry.
using ipc_handle = std::array<std::byte, 64>;

namespace detail {

/// Why an allocation has no handle of cudaMalloc's kind; null when it has one.
[[nodiscard]] constexpr char const* why_not_exportable(allocation const& a) noexcept {
    if (a.is_managed) return "it is managed memory, which no other process can open";
    if (a.is_of_pool && a.handle_types != 0 && (a.handle_types & cudaMemHandleTypePosixFileDescriptor) == 0)
        return "its pool gives out other handles than a file descriptor, which nothing here carries: make the pool with "
               "cudaMemHandleTypePosixFileDescriptor as well, or copy it";
    if (a.is_of_pool) return "it is stream-ordered memory: share it by its pool (sharing_options::pools), or copy it";
    if (!a.has_legacy_handle)
        return "it is mapped by virtual memory calls, for which cudaIpcGetMemHandle has no handle";
    return nullptr;
}

/// Handles fail in ways of their own.
inline void check_ipc(cudaError_t e, char const* call, std::source_location where) {
    auto const say = [&](errc code, char const* text) {
        static_cast<void>(cudaGetLastError());
        ferry::detail::fail(code, call, message{cudaGetErrorName(e)} << text, where);
    };
    switch (e) {
        case cudaSuccess: return;
        case cudaErrorMapBufferObjectFailed:
        case cudaErrorInvalidResourceHandle:
        case cudaErrorInvalidValue:  // what some drivers call a handle whose memory is gone
            return say(errc::stale_handle,
                       ": the exporter has freed the memory, or is gone; ask it for a new descriptor");
        case cudaErrorAlreadyMapped: return say(errc::already_mapped, ": another context of this process has it open");
        case cudaErrorDeviceUninitialized:
            return say(errc::same_process, ": this process has exported the memory; pass the session that shared it");
        case cudaErrorNotSupported: return say(errc::unsupported_platform, ": this system has no CUDA IPC");
        default: return check(e, call, where);
    }
}

}  // namespace detail

/// The handle of a whole allocation of cudaMalloc. Whoever opens it may read and write all of it, and what else lies in
/// its blocks of 2 MiB (`allocation::may_have_neighbours`). The memory must stay until every other process has closed
/// it.
///
/// \throws error  errc::not_exportable: managed, pool and virtual memory, with the reason;  what the driver reports
[[nodiscard]] inline ipc_handle handle_of_allocation(allocation const& a,
                                                     std::source_location where = std::source_location::current()) {
    if (auto const* const why = detail::why_not_exportable(a))
        ferry::detail::fail(errc::not_exportable, "ferry::cuda::handle_of_allocation",
                            message{why} << " (copy_policy::if_needed does)", where);
    device_guard const on{a.device_id};
    detail::beside_captures const quietly{detail::driver()};
    cudaIpcMemHandle_t handle;
    check(cudaIpcGetMemHandle(&handle, a.base), "cudaIpcGetMemHandle", where);
    ipc_handle out;
    static_assert(sizeof handle == sizeof out);
    std::memcpy(out.data(), &handle, sizeof out);
    return out;
}

/// An allocation of another process, open in this one; closed when it dies, on any thread, with its device made current
/// first. Work that uses it must be done by then. Opening it twice gives one address. Move-only.
class ipc_memory {
   public:
    /// Maps it for a device of this process; on another GPU than the exporter's peer access is enabled, which takes
    /// milliseconds. \throws error  errc::stale_handle, already_mapped, same_process, no_peer_access,
    /// unsupported_platform, device
    ipc_memory(ipc_handle const& from, std::int32_t device_id,
               std::source_location where = std::source_location::current())
        : device_id_{device_id} {
        cudaIpcMemHandle_t handle;
        std::memcpy(&handle, from.data(), sizeof handle);
        device_guard const on{device_id};
        detail::beside_captures const quietly{detail::driver()};
        void* p = nullptr;
        detail::check_ipc(cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle",
                          where);
        base_ = static_cast<std::byte*>(p);
    }
    ipc_memory(ipc_memory&& other) noexcept
        : device_id_{other.device_id_}, base_{std::exchange(other.base_, nullptr)} {}
    ipc_memory& operator=(ipc_memory&& other) noexcept {
        std::swap(device_id_, other.device_id_);
        std::swap(base_, other.base_);
        return *this;
    }
    ~ipc_memory() {
        if (base_ == nullptr) return;
        try {
            device_guard const on{device_id_};
            detail::beside_captures const quietly;
            if (cudaIpcCloseMemHandle(base_) != cudaSuccess) static_cast<void>(cudaGetLastError());
        } catch (...) {  // CUDA is gone, and the mapping with it
        }
    }

    /// Where the allocation begins.
    [[nodiscard]] std::byte* data() const noexcept { return base_; }
    [[nodiscard]] std::int32_t device_id() const noexcept { return device_id_; }

   private:
    std::int32_t device_id_;
    std::byte* base_ = nullptr;
};

}  // namespace ferry::inline v0::cuda
