// ferry: stream-ordered memory pools.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

namespace ferry::inline v0::cuda {

/// A handle to a CUDA memory pool, which the last handle, space or memory of it destroys. Thread-safe.
class pool {
   public:
    /// Whether other processes can import the pool, by a file descriptor.
    enum class sharing : std::uint8_t { none, posix_fd };

    /// Creates a pool.
    ///
    /// \param device_id  device of the memory
    /// \param how        whether other processes can import the pool
    /// \param most_kept  release threshold: unused bytes that stay allocated when the host synchronises
    /// \throws error  errc::device, driver, no_driver
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
        // By default unused memory is released at each synchronisation.
        check(cudaMemPoolSetAttribute(made, cudaMemPoolAttrReleaseThreshold, &most_kept), "cudaMemPoolSetAttribute");
    }
    /// \param device_id  device of the memory
    /// \return           the device's default pool, not owned
    /// \throws error  errc::device, no_driver
    [[nodiscard]] static pool default_of(std::int32_t device_id) {
        cudaMemPool_t found = nullptr;
        check_device(cudaDeviceGetDefaultMemPool(&found, device_id), "cudaDeviceGetDefaultMemPool");
        return pool{device_id, std::shared_ptr<CUmemPoolHandle_st>{found, [](cudaMemPool_t) {}}};
    }

    /// \return  the handle, owned by this object and its copies
    [[nodiscard]] cudaMemPool_t get() const noexcept { return handle_.get(); }
    /// \return  device of the memory
    [[nodiscard]] std::int32_t device_id() const noexcept { return device_id_; }

    /// Allocates in stream order: for work queued on `on` from now. Does not block. Free it with cudaFreeAsync, or use
    /// `pool_space`.
    ///
    /// \param bytes  size
    /// \param on     stream of any device
    /// \return       device memory
    /// \throws error  errc::out_of_memory; errc::capturing while `on` is captured: the memory would belong to the
    ///                graph; errors of CUDA
    [[nodiscard]] void* allocate(std::size_t bytes, stream_ref on) const {
        device_guard const current{device_id_};
        void* p = nullptr;
        detail::require_no_capture(on.get(), "ferry::cuda::pool");
        detail::relaxed_capture_mode const relaxed;
        // mutant: cuda_pool_take
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

/// A memory space over a pool and a stream: memory is allocated for work queued on the stream, and freed after the work
/// queued there at that time. The stream must outlive the memory. Memory deallocated while the stream is being captured
/// is leaked: freeing it would invalidate the capture. Thread-safe.
class pool_space {
   public:
    /// \param from  pool to allocate from
    /// \param on    stream that orders allocation and deallocation
    pool_space(pool from, stream_ref on) noexcept : pool_{std::move(from)}, on_{on} {}

    /// \param bytes  size
    /// \return       device memory, 256-byte aligned
    /// \throws error  as `pool::allocate`
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        return pool_.allocate(bytes, on_);
    }
    /// Does not block.
    ///
    /// \param p  memory of `allocate`
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        try {
            device_guard const current{pool_.device_id()};
            detail::relaxed_capture_mode const relaxed;
            // mutant: cuda_pool_capture, cuda_pool_free
            if (detail::is_free_of_captures(on_.get())) detail::ignore(cudaFreeAsync(p, on_.get()));
        } catch (...) {  // CUDA has shut down
        }
    }
    /// \return  device of the pool
    [[nodiscard]] ferry::device device() const noexcept { return {device_type::cuda, pool_.device_id()}; }

   private:
    pool pool_;
    stream_ref on_;
};

}  // namespace ferry::inline v0::cuda
