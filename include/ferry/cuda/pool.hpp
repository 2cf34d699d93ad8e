// ferry: stream-ordered memory pools.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

namespace FERRY_NAMESPACE::cuda {

/// A shared handle to a CUDA memory pool. The pool is destroyed with the last copy of the handle, including the copies
/// in `pool_space` objects and their buffers. CUDA then frees the memory of the pool when its last allocation is freed.
/// Thread-safe.
class pool {
   public:
    /// Whether other processes can import the pool, through a file descriptor.
    enum class sharing : std::uint8_t { none, posix_fd };

    /// Creates a pool.
    ///
    /// \param device_id  device of the memory
    /// \param how        whether other processes can import the pool
    /// \param most_kept  release threshold: if the pool holds more than this number of bytes, including memory in use,
    ///                   CUDA releases unused memory when the host synchronises
    /// \throws error  errc::device, driver; errors of CUDA
    explicit pool(std::int32_t device_id = 0, sharing how = sharing::none,
                  std::uint64_t most_kept = std::numeric_limits<std::uint64_t>::max())
        : device_id_{device_id} {
        cudaMemPoolProps props{};
        props.allocType = cudaMemAllocationTypePinned;
        props.handleTypes = how == sharing::posix_fd ? cudaMemHandleTypePosixFileDescriptor : cudaMemHandleTypeNone;
        props.location = {cudaMemLocationTypeDevice, device_id};
        cudaMemPool_t made = nullptr;
        device_guard const on{device_id};
        check(cudaMemPoolCreate(&made, &props), "cudaMemPoolCreate");
        handle_ = {made, [](cudaMemPool_t p) { detail::ignore(cudaMemPoolDestroy(p)); }};
        // By default CUDA releases unused memory at each synchronisation.
        check(cudaMemPoolSetAttribute(made, cudaMemPoolAttrReleaseThreshold, &most_kept), "cudaMemPoolSetAttribute");
    }
    /// Returns the default pool of a device.
    ///
    /// \param device_id  device of the memory
    /// \return           the device's default pool, not owned
    /// \throws error  errc::device; errors of CUDA
    [[nodiscard]] static pool default_of(std::int32_t device_id) {
        cudaMemPool_t found = nullptr;
        check_device(cudaDeviceGetDefaultMemPool(&found, device_id), "cudaDeviceGetDefaultMemPool");
        return pool{device_id, std::shared_ptr<CUmemPoolHandle_st>{found, [](cudaMemPool_t) {}}};
    }

    /// Returns the handle, which the caller must not destroy.
    [[nodiscard]] cudaMemPool_t get() const noexcept { return handle_.get(); }
    /// Returns the ordinal of the memory's device.
    [[nodiscard]] std::int32_t device_id() const noexcept { return device_id_; }

    /// Allocates memory in stream order, for later work on `on`. Does not block. The caller must free the memory with
    /// cudaFreeAsync; `pool_space` does so.
    ///
    /// \param bytes  size
    /// \param on     stream of any device; a default stream is that of the pool's device
    /// \return       device memory
    /// \throws error  errc::out_of_memory; errc::capturing while `on` is being captured, because the memory would
    ///                belong to the graph; errors of CUDA
    [[nodiscard]] void* allocate(std::size_t bytes, stream_ref on) const {
        device_guard const current{device_id_};
        void* p = nullptr;
        detail::require_no_capture(on.get(), "ferry::cuda::pool");
        detail::relaxed_capture_mode const relaxed;
        check(cudaMallocFromPoolAsync(&p, detail::at_least_one(bytes), handle_.get(), on.get()),
              "cudaMallocFromPoolAsync");
        return p;
    }

   private:
    pool(std::int32_t device_id, std::shared_ptr<CUmemPoolHandle_st> handle) noexcept
        : device_id_{device_id}, handle_{std::move(handle)} {}

    std::int32_t device_id_;
    std::shared_ptr<CUmemPoolHandle_st> handle_;
};

/// A memory space that allocates from a pool on a stream. Memory is allocated for later work on the stream, and freed
/// in stream order, after the work queued earlier. The stream must outlive the memory. Memory deallocated while the
/// stream is being captured is leaked, because freeing it would invalidate the capture. Thread-safe.
class pool_space {
   public:
    /// Constructs a space; shares ownership of the pool and borrows the stream.
    ///
    /// \param from  pool to allocate from
    /// \param on    stream that orders allocation and deallocation
    pool_space(pool from, stream_ref on) noexcept : pool_{std::move(from)}, on_{on} {}

    /// Allocates memory for later work on the stream.
    ///
    /// \param bytes  size
    /// \return       device memory, aligned to 256 bytes
    /// \throws error  errors of `pool::allocate`
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        return pool_.allocate(bytes, on_);
    }
    /// Frees memory after the work queued on the stream. Does not block.
    ///
    /// \param p  memory returned by `allocate`
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        try {
            device_guard const current{pool_.device_id()};
            detail::relaxed_capture_mode const relaxed;
            if (detail::is_free_of_captures(on_.get())) detail::ignore(cudaFreeAsync(p, on_.get()));
        } catch (...) {  // CUDA has shut down
        }
    }
    /// Returns the device of the pool.
    [[nodiscard]] ferry::device device() const noexcept { return {device_type::cuda, pool_.device_id()}; }
    /// Returns whether a tensor lies in memory of the pool, allocated on any stream.
    ///
    /// \param v  tensor with elements
    /// \throws error  errc::no_driver
    [[nodiscard]] bool contains(tensor_view const& v) const {
        return detail::at_both_ends(v, [&](void const* p) { return detail::pool_of(p) == pool_.get(); });
    }

   private:
    pool pool_;
    stream_ref on_;
};

}  // namespace FERRY_NAMESPACE::cuda
