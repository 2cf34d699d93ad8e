// ferry: memory of any CUDA kind, as a back end hands it out.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/release.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace ferry::inline v0::cuda {

/// Memory of one device kind, released when it dies, on any thread: at once on the host; on a GPU once the legacy
/// default stream of its device gets there, so that no release waits. Work on non-blocking streams must be done by
/// then, or ordered before it (R50). After the end of CUDA nothing is released any more (R66). Move-only.
class memory {
   public:
    /// Memory for work queued on `on`, which may belong to another device; for any work when `on` names none: memory of
    /// a GPU then waits for the per-thread default stream.
    /// \throws error  errc::out_of_memory, device, stream, capturing, no_driver;  std::bad_alloc
    memory(ferry::device where, std::size_t bytes, stream_token on) : where_{where}, bytes_{bytes} {
        if (bytes == 0) return;
        switch (where.type) {
            case device_type::cuda: allocate_on_device(on); return;
            case device_type::cuda_host: data_ = pinned_space{}.allocate(bytes); return;
            case device_type::cuda_managed: data_ = managed_space{}.allocate(bytes); return;
            default: data_ = host_space{}.allocate(bytes); return;
        }
    }
    memory(memory&& other) noexcept
        : where_{other.where_}, bytes_{std::exchange(other.bytes_, 0)}, data_{std::exchange(other.data_, nullptr)} {}
    memory& operator=(memory&& other) noexcept {
        std::swap(where_, other.where_);
        std::swap(bytes_, other.bytes_);
        std::swap(data_, other.data_);
        return *this;
    }
    ~memory() {
        if (data_ == nullptr) return;
        switch (where_.type) {
            case device_type::cuda: detail::release_on_legacy(data_, where_.id); return;
            case device_type::cuda_host: pinned_space{}.deallocate(data_, bytes_); return;
            case device_type::cuda_managed: managed_space{}.deallocate(data_, bytes_); return;
            default: host_space{}.deallocate(data_, bytes_); return;
        }
    }

    [[nodiscard]] void* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
    [[nodiscard]] ferry::device device() const noexcept { return where_; }

   private:
    /// From the device's current pool, whatever device the stream is of.
    void allocate_on_device(stream_token on) {
        if (on.names_stream()) detail::require_stream(on, "ferry::cuda::memory");
        std::int32_t const stream_device = on.names_stream() ? detail::device_of(on, "ferry::cuda::memory") : where_.id;
        cudaStream_t const s = on.names_stream() ? detail::handle_of(on) : cudaStreamPerThread;
        cudaMemPool_t from = nullptr;
        check_device(cudaDeviceGetMemPool(&from, where_.id), "cudaDeviceGetMemPool");
        device_guard const current{stream_device};
        if (!on.names_stream() || detail::is_default(on)) detail::require_no_capture(s, "ferry::cuda::memory");
        detail::beside_captures const quietly{detail::driver()};
        check(cudaMallocFromPoolAsync(&data_, bytes_, from, s), "cudaMallocFromPoolAsync");  // mutant: cuda_memory_take
        if (on.names_stream()) return;
        // Without a stream to order on, whoever uses the memory could come too early.
        if (cudaError_t const e = cudaStreamSynchronize(s); e != cudaSuccess) {  // mutant: cuda_memory_any
            detail::release_on_legacy(std::exchange(data_, nullptr), where_.id);
            check(e, "cudaStreamSynchronize");
        }
    }

    ferry::device where_;
    std::size_t bytes_;
    void* data_ = nullptr;
};

}  // namespace ferry::inline v0::cuda
