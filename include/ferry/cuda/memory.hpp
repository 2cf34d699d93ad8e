// ferry: memory of any CUDA kind, as a back end hands it out.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <utility>

namespace ferry::cuda {

/// Memory of one device kind, released when it dies, on any thread: at once on the host; on a GPU once the legacy default
/// stream of its device gets there, so that no release waits. Work on non-blocking streams must be done by then, or ordered
/// before it (R50). After the end of CUDA nothing is released any more (R66). Move-only.
class memory {
   public:
    /// Memory for work queued on `on`; on the legacy default stream when `on` names none.
    /// \throws error  errc::out_of_memory, device, no_driver;  std::bad_alloc
    memory(ferry::device where, std::size_t bytes, stream_token on) : where_{where}, bytes_{bytes} {
        if (bytes == 0) return;
        switch (where.type) {
            case device_type::cuda: {
                device_guard const current{where.id};
                cudaStream_t const s = on.names_stream() ? detail::handle_of(on) : cudaStreamLegacy;
                check(cudaMallocAsync(&data_, bytes, s), "cudaMallocAsync");
                // Without a stream to order on, whoever uses the memory could come too early.
                if (!on.names_stream()) check(cudaStreamSynchronize(s), "cudaStreamSynchronize");
                return;
            }
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
            case device_type::cuda: release_on_device(); return;
            case device_type::cuda_host: pinned_space{}.deallocate(data_, bytes_); return;
            case device_type::cuda_managed: managed_space{}.deallocate(data_, bytes_); return;
            default: host_space{}.deallocate(data_, bytes_); return;
        }
    }

    [[nodiscard]] void* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
    [[nodiscard]] ferry::device device() const noexcept { return where_; }

   private:
    void release_on_device() noexcept {
        int before = 0;
        bool const known = cudaGetDevice(&before) == cudaSuccess;
        if (cudaSetDevice(where_.id) != cudaSuccess) return;  // CUDA is gone: nothing to give back to
        if (cudaFreeAsync(data_, cudaStreamLegacy) != cudaSuccess) static_cast<void>(cudaGetLastError());
        if (known && before != where_.id) static_cast<void>(cudaSetDevice(before));
    }

    ferry::device where_;
    std::size_t bytes_;
    void* data_ = nullptr;
};

}  // namespace ferry::cuda
