// ferry: CUDA events: points in a stream that others wait for.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/error.hpp>

#include <utility>

namespace ferry::inline v0::cuda {

namespace detail {

/// Whether all that was recorded on an event has run.
[[nodiscard]] inline bool is_done(cudaEvent_t e) {
    beside_captures const quietly;
    cudaError_t const now = cudaEventQuery(e);
    if (now == cudaErrorNotReady) {
        ignore(now);
        return false;
    }
    check(now, "cudaEventQuery");
    return true;
}
/// Blocks the host until it has.
inline void wait(cudaEvent_t e) {
    beside_captures const quietly;
    check(cudaEventSynchronize(e), "cudaEventSynchronize");
}

/// The same for what goes now: when a wait fails it is made again, since some fail without having waited. When the
/// second fails, too, nothing runs there any more.
inline void wait_to_release(cudaEvent_t e) noexcept {
    beside_captures const quietly;
    if (cudaEventSynchronize(e) == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    ignore(cudaEventSynchronize(e));
}

}  // namespace detail

/// An owned event without timing. Move-only. Belongs to the device that was current when it was made.
class event {
   public:
    event() {
        detail::beside_captures const quietly;
        check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    event(event&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
    event& operator=(event&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~event() {
        // After CUDA's end: an error, and nothing to do.
        if (handle_ != nullptr) detail::ignore(cudaEventDestroy(handle_));
    }

    [[nodiscard]] cudaEvent_t get() const noexcept { return handle_; }
    /// Replaces what was recorded before. Does not block. \throws error  errc::stream, capturing; what the driver
    /// reports
    void record(cudaStream_t s) { check(cudaEventRecord(handle_, s), "cudaEventRecord"); }
    /// Whether all that was recorded has run. Does not block. \throws error  what the driver reports
    [[nodiscard]] bool is_done() const { return detail::is_done(handle_); }
    /// Blocks the host until all that was recorded has run. \throws error  what the driver reports
    void wait() const { detail::wait(handle_); }

   private:
    cudaEvent_t handle_ = nullptr;
};

}  // namespace ferry::inline v0::cuda
