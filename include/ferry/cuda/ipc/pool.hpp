// ferry: imports and exports stream-ordered memory pools.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/detail/ipc/opened_once.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/ipc/allocation.hpp>
#include <ferry/cuda/ipc/memory.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <source_location>
#include <utility>
#include <vector>

#include <unistd.h>

namespace FERRY_NAMESPACE::cuda {

/// Exports a pool as a file descriptor, which must be sent to other processes over a Unix socket (SCM_RIGHTS).
///
/// \param pool   pool created with cudaMemHandleTypePosixFileDescriptor
/// \return       file descriptor, owned by the caller
/// \throws error  errc::not_exportable for other pools; errors of CUDA
[[nodiscard]] inline int descriptor_of_pool(cudaMemPool_t pool,
                                            std::source_location where = std::source_location::current()) {
    detail::relaxed_capture_mode const relaxed{detail::driver()};
    int descriptor = -1;
    cudaError_t const e =
        cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0);
    if (e == cudaErrorInvalidValue || e == cudaErrorNotSupported) {
        detail::ignore(e);
        ferry::detail::fail(
            errc::not_exportable, "ferry::cuda::descriptor_of_pool",
            message{"the pool has no file descriptor: allocate from pool{device, pool::sharing::posix_fd}, or copy the "
                    "memory"},
            where);
    }
    check(e, "cudaMemPoolExportToShareableHandle", where);
    return descriptor;
}

/// Exports memory of an exportable pool, for importers that have imported the pool. The importer's work must be ordered
/// after the allocation, and the memory must stay allocated until all importers have freed it.
///
/// \param p      memory of the pool
/// \return       the handle
/// \throws error  errc::not_exportable; errors of CUDA
[[nodiscard]] inline ipc_handle handle_of_pool_memory(void* p,
                                                      std::source_location where = std::source_location::current()) {
    detail::relaxed_capture_mode const relaxed{detail::driver()};
    cudaMemPoolPtrExportData data;
    cudaError_t e = cudaMemPoolExportPointer(&data, p);
    if (e == cudaErrorInvalidValue) {  // the pool must be exported before its memory
        detail::ignore(e);
        ::close(descriptor_of_pool(detail::pool_of(p), where));
        e = cudaMemPoolExportPointer(&data, p);
    }
    check(e, "cudaMemPoolExportPointer", where);
    ipc_handle out;
    static_assert(sizeof data == sizeof out);
    std::memcpy(out.data(), &data, sizeof out);
    return out;
}

/// A shared handle to a memory pool of another process, from which memory can be imported but not allocated. The pool
/// is closed when all copies of the handle, and all memory imported from the pool, have been destroyed. Thread-safe.
///
/// A process must import the same memory only once and share the `imported_memory`, as `shareable` does. If memory is
/// imported twice, the first free unmaps it for both imports.
class imported_pool {
   public:
    /// Imports a pool and gives a device access to it.
    ///
    /// \param descriptor  file descriptor of the pool; remains owned by the caller
    /// \param device_id   device that will access the memory
    /// \throws error  errc::stale_handle, no_peer_access, device; errors of CUDA
    imported_pool(int descriptor, std::int32_t device_id, std::source_location where = std::source_location::current())
        : device_id_{device_id} {
        device_guard const on{device_id};
        detail::relaxed_capture_mode const relaxed{detail::driver()};
        cudaMemPool_t made = nullptr;
        detail::check_ipc(
            cudaMemPoolImportFromShareableHandle(&made, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                                                 cudaMemHandleTypePosixFileDescriptor, 0),
            "cudaMemPoolImportFromShareableHandle", where);
        handle_ = {made, [](cudaMemPool_t p) {
                       detail::relaxed_capture_mode const mode;
                       detail::ignore(cudaMemPoolDestroy(p));
                   }};
        enable_access(device_id, where);
    }

    /// Gives another device access to the pool.
    ///
    /// \param device_id  device that will access the memory
    /// \throws error  errc::no_peer_access; errors of CUDA
    void enable_access(std::int32_t device_id, std::source_location where = std::source_location::current()) const {
        detail::relaxed_capture_mode const relaxed{detail::driver()};
        cudaMemAccessDesc access{};
        access.location = {cudaMemLocationTypeDevice, device_id};
        access.flags = cudaMemAccessFlagsProtReadWrite;
        check(cudaMemPoolSetAccess(handle_.get(), &access, 1), "cudaMemPoolSetAccess", where);
    }

    /// Returns the handle, owned by this object and its copies.
    [[nodiscard]] cudaMemPool_t get() const noexcept { return handle_.get(); }
    /// Returns the ordinal of the device for which the pool was imported.
    [[nodiscard]] std::int32_t device_id() const noexcept { return device_id_; }

   private:
    std::int32_t device_id_;
    std::shared_ptr<CUmemPoolHandle_st> handle_;
};

/// Memory imported from another process's pool. The destructor, which may run on any thread, frees the imported
/// memory. It must run after the work that uses the memory has completed, and before the exporter frees the memory.
/// Move-only.
class imported_memory {
   public:
    /// Imports memory.
    ///
    /// \param from    pool that contains the memory
    /// \param handle  the exporter's handle
    /// \throws error  errc::stale_handle; errors of CUDA
    imported_memory(imported_pool from, ipc_handle const& handle,
                    std::source_location where = std::source_location::current())
        : pools_{std::move(from)} {
        auto const& driver = detail::driver();  // may throw: called before the import
        cudaMemPoolPtrExportData data;
        std::memcpy(&data, handle.data(), sizeof data);
        device_guard const on{pools_.front().device_id()};
        detail::relaxed_capture_mode const relaxed{driver};
        detail::check_ipc(cudaMemPoolImportPointer(&p_, pools_.front().get(), &data), "cudaMemPoolImportPointer",
                          where);
        if (driver.pointer_get_attribute(&device_id_, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                         reinterpret_cast<CUdeviceptr>(p_)) != CUDA_SUCCESS ||
            device_id_ < 0)
            device_id_ = pools_.front().device_id();
    }
    imported_memory(imported_memory&& other) noexcept
        : pools_{std::move(other.pools_)}, p_{std::exchange(other.p_, nullptr)}, device_id_{other.device_id_} {}
    imported_memory& operator=(imported_memory&& other) noexcept {
        std::swap(pools_, other.pools_);
        std::swap(p_, other.p_);
        std::swap(device_id_, other.device_id_);
        return *this;
    }
    ~imported_memory() {
        if (p_ == nullptr) return;
        try {
            device_guard const on{pools_.front().device_id()};
            detail::relaxed_capture_mode const relaxed;
            detail::ignore(cudaFree(p_));  // synchronises: a free in stream order may run after the exporter's
        } catch (...) {                    // CUDA has shut down
        }
    }

    /// Returns the address of the first byte.
    [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(p_); }
    /// Compares the addresses of two imports. Memory that is imported again has the same address, even with another
    /// handle or for another device, and the first free unmaps it for both imports.
    ///
    /// \param other  memory imported by this process
    /// \return       true when both are the same memory
    [[nodiscard]] bool is_same(imported_memory const& other) const noexcept { return p_ == other.p_; }
    /// Takes over the device access of a second import of the same memory. `again` is empty afterwards and frees
    /// nothing, even if this function throws.
    ///
    /// \param again  the same memory (`is_same`)
    /// \throws error           errc::no_peer_access; errors of CUDA
    /// \throws std::bad_alloc  when host memory cannot be allocated
    void join(imported_memory& again) {
        again.p_ = nullptr;
        imported_pool const& other = again.pools_.front();
        for (auto const& one : pools_)
            if (one.device_id() == other.device_id()) return;
        device_guard const on{other.device_id()};
        pools_.front().enable_access(other.device_id());
        pools_.push_back(other);  // keeps the access that it enabled
    }
    /// Returns the ordinal of the exporter's device, as the driver reports it, or the ordinal of the device for which
    /// the memory was imported if the driver reports none. The latter device always has access to the memory.
    [[nodiscard]] std::int32_t device_id() const noexcept { return device_id_; }

   private:
    std::vector<imported_pool> pools_;  // the pool of the memory, then one for each further device with access
    void* p_ = nullptr;
    std::int32_t device_id_ = 0;
};

namespace detail {

/// Mappings of pool memory, shared within the process.
using pool_memories = opened_once<imported_memory>;

}  // namespace detail

}  // namespace FERRY_NAMESPACE::cuda
