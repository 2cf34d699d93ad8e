// ferry: stream-ordered pools of other processes.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/allocation.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/detail/opened_once.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/ipc_memory.hpp>
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

namespace ferry::inline v0::cuda {

/// The file descriptor by which another process opens a pool; it travels over a Unix socket (SCM_RIGHTS), never as
/// text. The caller closes it. \throws error  errc::not_exportable for pools that were not made to be shared;  what the
/// driver reports
[[nodiscard]] inline int descriptor_of_pool(cudaMemPool_t pool,
                                            std::source_location where = std::source_location::current()) {
    detail::beside_captures const quietly{detail::driver()};
    int descriptor = -1;
    cudaError_t const e =
        cudaMemPoolExportToShareableHandle(&descriptor, pool, cudaMemHandleTypePosixFileDescriptor, 0);
    if (e == cudaErrorInvalidValue || e == cudaErrorNotSupported) {
        detail::ignore(e);
        ferry::detail::fail(
            errc::not_exportable, "ferry::cuda::descriptor_of_pool",
            message{"the pool was not made to be shared: allocate from pool{device, pool::sharing::posix_fd}, or copy"},
            where);
    }
    check(e, "cudaMemPoolExportToShareableHandle", where);
    return descriptor;
}

/// The handle of memory of a shared pool: plain data that means something to who has opened the pool. The memory must
/// be there in stream order, and stay until every importer has freed it.
[[nodiscard]] inline ipc_handle handle_of_pool_memory(void* p,
                                                      std::source_location where = std::source_location::current()) {
    detail::beside_captures const quietly{detail::driver()};
    cudaMemPoolPtrExportData data;
    cudaError_t e = cudaMemPoolExportPointer(&data, p);
    if (e == cudaErrorInvalidValue) {  // the pool itself must have been exported once
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

/// Another process's pool. It allocates nothing here. Opening the same memory twice would let the first free unmap it
/// for all: open it once, and share the object, as every `shareable` of a process does. A handle to the pool; closed
/// with the last one and the memory from it. Thread-safe.
class imported_pool {
   public:
    /// Opens the pool for a device, which gets access to it. `descriptor` stays the caller's.
    /// \throws error  errc::stale_handle, no_peer_access, device; what the driver reports
    imported_pool(int descriptor, std::int32_t device_id, std::source_location where = std::source_location::current())
        : device_id_{device_id} {
        device_guard const on{device_id};
        detail::beside_captures const quietly{detail::driver()};
        cudaMemPool_t made = nullptr;
        detail::check_ipc(
            cudaMemPoolImportFromShareableHandle(&made, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                                                 cudaMemHandleTypePosixFileDescriptor, 0),
            "cudaMemPoolImportFromShareableHandle", where);
        handle_ = {made, [](cudaMemPool_t p) {
                       detail::beside_captures const beside;
                       detail::ignore(cudaMemPoolDestroy(p));
                   }};
        let_in(device_id, where);
    }

    /// Gives one more device access. \throws error  errc::no_peer_access; what the driver reports
    void let_in(std::int32_t device_id, std::source_location where = std::source_location::current()) const {
        detail::beside_captures const quietly{detail::driver()};
        cudaMemAccessDesc access{};
        access.location = {cudaMemLocationTypeDevice, device_id};
        access.flags = cudaMemAccessFlagsProtReadWrite;
        check(cudaMemPoolSetAccess(handle_.get(), &access, 1), "cudaMemPoolSetAccess", where);
    }

    [[nodiscard]] cudaMemPool_t get() const noexcept { return handle_.get(); }
    [[nodiscard]] std::int32_t device_id() const noexcept { return device_id_; }

   private:
    std::int32_t device_id_;
    std::shared_ptr<CUmemPoolHandle_st> handle_;
};

/// Memory of another process's pool; freed when it dies, on any thread, which must be before the exporter frees it, and
/// after the work that uses it. Move-only.
class imported_memory {
   public:
    /// \throws error  errc::stale_handle; what the driver reports
    imported_memory(imported_pool from, ipc_handle const& handle,
                    std::source_location where = std::source_location::current())
        : pools_{std::move(from)} {
        auto const& driver = detail::driver();  // first: nothing would give the memory back if it threw
        cudaMemPoolPtrExportData data;
        std::memcpy(&data, handle.data(), sizeof data);
        device_guard const on{pools_.front().device_id()};
        detail::beside_captures const quietly{driver};
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
            detail::beside_captures const quietly;
            detail::ignore(cudaFree(p_));  // waits for the device; a free on a stream could come after the exporter's
        } catch (...) {                    // CUDA is gone
        }
    }

    [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(p_); }
    /// Whether both are one memory: imported again it has the same address, whatever the handle and the device were,
    /// and the first free unmaps it for all.
    [[nodiscard]] bool is_same(imported_memory const& other) const noexcept { return p_ == other.p_; }
    /// Takes what `again`, the same memory imported once more, has beyond this: the access of its device. `again` has
    /// no memory then, and frees none, whatever is thrown.
    /// \throws error  errc::no_peer_access; what the driver reports
    void join(imported_memory& again) {
        again.p_ = nullptr;
        imported_pool const& other = again.pools_.front();
        for (auto const& one : pools_)
            if (one.device_id() == other.device_id()) return;
        device_guard const on{other.device_id()};
        pools_.front().let_in(other.device_id());
        pools_.push_back(other);  // kept: what it let in stays so
    }
    /// Where the driver says that it is: the exporter decides. The device that it was opened for has access to it.
    [[nodiscard]] std::int32_t device_id() const noexcept { return device_id_; }

   private:
    std::vector<imported_pool> pools_;  // the one that the memory is of, and for each other device one
    void* p_ = nullptr;
    std::int32_t device_id_ = 0;
};

namespace detail {

/// All mappings of a process share what they import.
using pool_memories = opened_once<imported_memory>;

}  // namespace detail

}  // namespace ferry::inline v0::cuda
