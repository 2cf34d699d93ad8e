// ferry: imports and exports device memory through the runtime's 64-byte handles.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/ipc/allocation.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE::cuda {

/// The bytes of a cudaIpcMemHandle_t, a cudaIpcEventHandle_t or a cudaMemPoolPtrExportData.
using ipc_handle = std::array<std::byte, 64>;

namespace detail {

/// Returns the reason why cudaIpcGetMemHandle cannot export an allocation; null when it can.
[[nodiscard]] constexpr char const* why_not_exportable(allocation const& a) noexcept {
    if (a.is_managed) return "managed memory cannot be opened by other processes: copy it";
    if (a.is_of_pool && a.handle_types != 0 && (a.handle_types & cudaMemHandleTypePosixFileDescriptor) == 0)
        return "the pool exports no file descriptor, which ferry needs: create the pool with "
               "cudaMemHandleTypePosixFileDescriptor, or copy the memory";
    if (a.is_of_pool)
        return "stream-ordered memory has no IPC handle: share its pool (sharing_options::pools), or copy it";
    if (!a.has_legacy_handle)
        return "memory mapped by the virtual memory API has no IPC handle: copy it";
    return nullptr;
}

/// Throws unless a call that takes an IPC handle succeeded; the errors of such calls have specific causes.
inline void check_ipc(cudaError_t e, char const* call, std::source_location where) {
    auto const say = [&](errc code, char const* text) {
        static_cast<void>(cudaGetLastError());
        ferry::detail::fail(code, call, message{cudaGetErrorName(e)} << text, where);
    };
    switch (e) {
        case cudaSuccess: return;
        case cudaErrorMapBufferObjectFailed:
        case cudaErrorInvalidResourceHandle:
        case cudaErrorInvalidValue:  // reported by some drivers for freed memory
            return say(errc::stale_handle,
                       ": the exporter has freed the memory or has ended: get a new descriptor from it");
        case cudaErrorAlreadyMapped:
            return say(errc::already_mapped, ": another context of this process has opened the memory: close it first");
        case cudaErrorDeviceUninitialized:
            return say(errc::same_process, ": this process exported the memory: pass the session that shared it");
        case cudaErrorNotSupported:
            return say(errc::unsupported_platform, ": this system does not support CUDA IPC: copy through the host");
        default: return check(e, call, where);
    }
}

}  // namespace detail

/// Exports an allocation made by cudaMalloc. Importers can read and write all of it, as well as other allocations in
/// the same 2 MiB blocks (`allocation::may_have_neighbours`). The memory must stay allocated until all importers have
/// closed it.
///
/// \param a      allocation, as returned by `allocation_of`
/// \return       the handle
/// \throws error  errc::not_exportable, with the reason, for managed memory, memory of a pool, and memory mapped with
///                cuMemMap; errors of CUDA
[[nodiscard]] inline ipc_handle handle_of_allocation(allocation const& a,
                                                     std::source_location where = std::source_location::current()) {
    if (auto const* const why = detail::why_not_exportable(a))
        ferry::detail::fail(errc::not_exportable, "ferry::cuda::handle_of_allocation",
                            message{why} << ": export it with copy_policy::if_needed, which copies it", where);
    device_guard const on{a.device_id};
    detail::relaxed_capture_mode const relaxed{detail::driver()};
    cudaIpcMemHandle_t handle;
    check(cudaIpcGetMemHandle(&handle, a.base), "cudaIpcGetMemHandle", where);
    ipc_handle out;
    static_assert(sizeof handle == sizeof out);
    std::memcpy(out.data(), &handle, sizeof out);
    return out;
}

/// An allocation of another process, mapped in this process. The destructor, which may run on any thread, closes the
/// mapping; work that uses the memory must be complete by then. Opening a mapped allocation again yields the same
/// address. Move-only.
class ipc_memory {
   public:
    /// Maps an allocation for access by a device. If this is not the exporter's device, also enables peer access, which
    /// takes longer.
    ///
    /// \param from       the exporter's handle
    /// \param device_id  device that will access the memory
    /// \throws error  errc::stale_handle, already_mapped, same_process, no_peer_access, unsupported_platform, device;
    ///                errors of CUDA
    ipc_memory(ipc_handle const& from, std::int32_t device_id,
               std::source_location where = std::source_location::current())
        : device_id_{device_id} {
        cudaIpcMemHandle_t handle;
        std::memcpy(&handle, from.data(), sizeof handle);
        device_guard const on{device_id};
        detail::relaxed_capture_mode const relaxed{detail::driver()};
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
            detail::relaxed_capture_mode const relaxed;
            if (cudaIpcCloseMemHandle(base_) != cudaSuccess) static_cast<void>(cudaGetLastError());
        } catch (...) {  // CUDA has shut down and removed the mapping
        }
    }

    /// Returns the address of the first byte of the allocation.
    [[nodiscard]] std::byte* data() const noexcept { return base_; }
    /// Returns the ordinal of the device for which the memory is mapped.
    [[nodiscard]] std::int32_t device_id() const noexcept { return device_id_; }

   private:
    std::int32_t device_id_;
    std::byte* base_ = nullptr;
};

}  // namespace FERRY_NAMESPACE::cuda
