// ferry: host, pinned, managed or device memory, allocated by back ends.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/memory/release.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace FERRY_NAMESPACE::cuda {

/// Memory of one device type. Move-only.
///
/// The destructor may run on any thread. It frees pageable memory immediately, pinned and managed memory with
/// cudaFreeHost and cudaFree, which synchronise, and device memory in stream order on the legacy default stream of its
/// device, without blocking. Work on non-blocking streams must be complete by then, or the legacy default stream must
/// be ordered after it (R50). After CUDA has shut down, CUDA memory is not freed (R66).
class memory {
   public:
    /// Allocates memory for work queued on the stream `on`, which may belong to another device. Without a stream, the
    /// memory can be used on any stream, and the allocation of device memory waits for the per-thread default stream.
    ///
    /// \param dev    device of the memory: cuda, cuda_host, cuda_managed or cpu
    /// \param bytes  size
    /// \param on     stream on which the memory is first used; {} for none
    /// \throws error           errc::out_of_memory, device, stream, capturing; errors of CUDA
    /// \throws std::bad_alloc  when host memory cannot be allocated
    memory(ferry::device dev, std::size_t bytes, stream_token on) : device_{dev}, bytes_{bytes} {
        if (!uses_cuda_streams(dev.type) && dev.type != device_type::cpu)
            ferry::detail::fail(errc::device, "ferry::cuda::memory",
                                message{"cannot allocate on "}
                                    << name(dev.type) << ":" << dev.id
                                    << ", expected cuda, cuda_host, cuda_managed or cpu: use a back end of that device");
        if (bytes == 0) return;
        switch (dev.type) {
            case device_type::cuda: allocate_on_device(on); return;
            case device_type::cuda_host: data_ = pinned_space{}.allocate(bytes); return;
            case device_type::cuda_managed: data_ = managed_space{}.allocate(bytes); return;
            default: data_ = host_space{}.allocate(bytes); return;
        }
    }
    memory(memory&& other) noexcept
        : device_{other.device_}, bytes_{std::exchange(other.bytes_, 0)}, data_{std::exchange(other.data_, nullptr)} {}
    memory& operator=(memory&& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(bytes_, other.bytes_);
        std::swap(data_, other.data_);
        return *this;
    }
    ~memory() {
        if (data_ == nullptr) return;
        switch (device_.type) {
            case device_type::cuda: detail::release_on_legacy(data_, device_.id); return;
            case device_type::cuda_host: pinned_space{}.deallocate(data_, bytes_); return;
            case device_type::cuda_managed: managed_space{}.deallocate(data_, bytes_); return;
            default: host_space{}.deallocate(data_, bytes_); return;
        }
    }

    /// Returns the address of the memory; null for 0 bytes.
    [[nodiscard]] void* data() const noexcept { return data_; }
    /// Returns the size in bytes.
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
    [[nodiscard]] ferry::device device() const noexcept { return device_; }

   private:
    /// Allocates from the device's current pool, for a stream of any device.
    void allocate_on_device(stream_token on) {
        if (on.names_stream()) detail::require_stream(on, "ferry::cuda::memory");
        std::int32_t const stream_id =
            on.names_stream() ? detail::device_of(on, "ferry::cuda::memory") : device_.id;
        cudaStream_t const s = on.names_stream() ? detail::handle_of(on) : cudaStreamPerThread;
        cudaMemPool_t from = nullptr;
        check_device(cudaDeviceGetMemPool(&from, device_.id), "cudaDeviceGetMemPool");
        device_guard const current{stream_id};
        if (!on.names_stream() || detail::is_default(on)) detail::require_no_capture(s, "ferry::cuda::memory");
        detail::relaxed_capture_mode const relaxed{detail::driver()};
        check(cudaMallocFromPoolAsync(&data_, bytes_, from, s), "cudaMallocFromPoolAsync");
        if (on.names_stream()) return;
        // Without a stream, other streams may use the memory before its allocation has run.
        if (cudaError_t const e = cudaStreamSynchronize(s); e != cudaSuccess) {
            detail::release_on_legacy(std::exchange(data_, nullptr), device_.id);
            check(e, "cudaStreamSynchronize");
        }
    }

    ferry::device device_;
    std::size_t bytes_;
    void* data_ = nullptr;
};

}  // namespace FERRY_NAMESPACE::cuda
