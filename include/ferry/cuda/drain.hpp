// ferry: the wait before memory goes that queued work may still use.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/error.hpp>

namespace ferry::inline v0::cuda::detail {

/// Waits for a stream at the end of a scope that is left by an exception: declared behind memory which work on the
/// stream uses, so that it has run before the memory goes. Also when a wait failed: some fail without having waited.
class drain {
   public:
    explicit drain(cudaStream_t s) noexcept : stream_{s} {}
    drain(drain const&) = delete;
    drain& operator=(drain const&) = delete;
    ~drain() {
        if (is_done_) return;
        beside_captures const quietly;
        ignore(cudaStreamSynchronize(stream_));  // mutant: cuda_drain
    }
    /// Nothing that uses the memory is under way any more.
    void done() noexcept { is_done_ = true; }

   private:
    cudaStream_t stream_;
    bool is_done_ = false;
};

}  // namespace ferry::inline v0::cuda::detail
