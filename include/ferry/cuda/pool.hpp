// ferry: stream-ordered memory of one GPU.
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

/// A pool of its own: memory stays with it between uses, as much as it is told. Exportable pools can be shared with
/// other processes. Owned by the handles to it, spaces and memory included. Thread-safe.
class pool {
   public:
    enum class sharing : std::uint8_t { none, posix_fd };

    /// `most_kept`: bytes that may stay with it, unused, when the host waits for the device; the rest goes back.
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
        // Until the pool dies, not until the next synchronisation.
        check(cudaMemPoolSetAttribute(made, cudaMemPoolAttrReleaseThreshold, &most_kept), "cudaMemPoolSetAttribute");
    }
    /// The device's default pool, which nobody owns.
    [[nodiscard]] static pool default_of(std::int32_t device_id) {
        cudaMemPool_t found = nullptr;
        check_device(cudaDeviceGetDefaultMemPool(&found, device_id), "cudaDeviceGetDefaultMemPool");
        return pool{device_id, std::shared_ptr<CUmemPoolHandle_st>{found, [](cudaMemPool_t) {}}};
    }

    [[nodiscard]] cudaMemPool_t get() const noexcept { return handle_.get(); }
    [[nodiscard]] std::int32_t device_id() const noexcept { return device_id_; }

    /// Memory that is there for work queued on `on` from now, also on another device's stream.
    /// \throws error  errc::out_of_memory; errc::capturing, for the memory would belong to the graph; …
    [[nodiscard]] void* allocate(std::size_t bytes, stream_ref on) const {
        device_guard const current{device_id_};
        void* p = nullptr;
        detail::require_no_capture(on.get(), "ferry::cuda::pool");
        detail::beside_captures const quietly;
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

/// Memory of a pool, ordered on one stream: it is given out for work queued there, and given back after what is queued
/// there by then. The stream must outlive the memory. What is given back while the stream is being captured is lost,
/// since freeing it would spoil the capture. Thread-safe.
class pool_space {
   public:
    pool_space(pool from, stream_ref on) noexcept : pool_{std::move(from)}, on_{on} {}

    /// \throws error  as `pool::allocate`
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        return pool_.allocate(bytes, on_);
    }
    void deallocate(void* p, std::size_t, std::size_t = default_alignment) const noexcept {
        try {
            device_guard const current{pool_.device_id()};
            detail::beside_captures const quietly;
            // mutant: cuda_pool_capture, cuda_pool_free
            if (detail::is_free_of_captures(on_.get())) detail::ignore(cudaFreeAsync(p, on_.get()));
        } catch (...) {  // CUDA is gone
        }
    }
    [[nodiscard]] ferry::device device() const noexcept { return {device_type::cuda, pool_.device_id()}; }

   private:
    pool pool_;
    stream_ref on_;
};

}  // namespace ferry::inline v0::cuda
