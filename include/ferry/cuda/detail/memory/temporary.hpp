// ferry: device memory for the duration of one copy.
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/pool.hpp>

#include <cstddef>

namespace FERRY_NAMESPACE::cuda::detail {

/// Memory of a pool of the current device, allocated in stream order, and freed in stream order at the end of the
/// scope. Does not block.
class temporary {
   public:
    /// Allocates memory for later work on the stream.
    ///
    /// \throws error  errc::out_of_memory; errors of CUDA
    temporary(pool const& from, std::size_t bytes, cudaStream_t s) : stream_{s} {
        check(cudaMallocFromPoolAsync(&p_, bytes, from.get(), s), "cudaMallocFromPoolAsync");
    }
    temporary(temporary const&) = delete;
    temporary& operator=(temporary const&) = delete;
    ~temporary() { ignore(cudaFreeAsync(p_, stream_)); }
    [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(p_); }

   private:
    cudaStream_t stream_;
    void* p_ = nullptr;
};

}  // namespace FERRY_NAMESPACE::cuda::detail
