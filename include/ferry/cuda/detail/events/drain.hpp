// ferry: waits for queued work before its memory is freed.
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/error.hpp>

namespace FERRY_NAMESPACE::cuda::detail {

/// Synchronises a stream if the scope is left before `done` is called, that is, by an exception. Must be declared after
/// the memory that work on the stream uses, so that the work has completed before the memory is freed. Also repeats a
/// failed wait, which may have failed without waiting.
class drain {
   public:
    explicit drain(cudaStream_t s) noexcept : stream_{s} {}
    drain(drain const&) = delete;
    drain& operator=(drain const&) = delete;
    ~drain() {
        if (is_done_) return;
        relaxed_capture_mode const relaxed;
        ignore(cudaStreamSynchronize(stream_));
    }
    /// Disables the synchronisation: all work that uses the memory has completed.
    void done() noexcept { is_done_ = true; }

   private:
    cudaStream_t stream_;
    bool is_done_ = false;
};

}  // namespace FERRY_NAMESPACE::cuda::detail
