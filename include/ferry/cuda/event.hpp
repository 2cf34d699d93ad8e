// ferry: CUDA events.
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/error.hpp>

#include <utility>

namespace FERRY_NAMESPACE::cuda {

namespace detail {

/// Returns whether all recorded work has completed. Does not block.
[[nodiscard]] inline bool is_done(cudaEvent_t e) {
    relaxed_capture_mode const relaxed;
    cudaError_t const now = cudaEventQuery(e);
    if (now == cudaErrorNotReady) {
        ignore(now);
        return false;
    }
    check(now, "cudaEventQuery");
    return true;
}
/// Blocks the host until all recorded work has completed.
inline void wait(cudaEvent_t e) {
    relaxed_capture_mode const relaxed;
    check(cudaEventSynchronize(e), "cudaEventSynchronize");
}

/// Blocks the host until all recorded work has completed, before memory is released. Repeats a failed wait once,
/// because it may have failed before the work completed; after a second failure, no work can be running.
inline void wait_to_release(cudaEvent_t e) noexcept {
    relaxed_capture_mode const relaxed;
    if (cudaEventSynchronize(e) == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    ignore(cudaEventSynchronize(e));
}

}  // namespace detail

/// An owned event without timing. Move-only. Belongs to the device that was current at its construction.
class event {
   public:
    /// Creates an event on the current device.
    ///
    /// \throws error  errc::no_driver, out_of_memory; errors of CUDA
    event() {
        detail::relaxed_capture_mode const relaxed;
        check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    event(event&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
    event& operator=(event&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~event() {
        // fails harmlessly after CUDA has shut down
        if (handle_ != nullptr) detail::ignore(cudaEventDestroy(handle_));
    }

    /// Returns the handle, owned by this object.
    [[nodiscard]] cudaEvent_t get() const noexcept { return handle_; }
    /// Records this event on a stream, after all work queued there so far. Replaces any earlier record. Does not block.
    ///
    /// \param s  stream of the event's device
    /// \throws error  errc::stream, capturing; errors of CUDA
    void record(cudaStream_t s) { check(cudaEventRecord(handle_, s), "cudaEventRecord"); }
    /// Returns whether all recorded work has completed. Does not block.
    ///
    /// \throws error  errors of CUDA, including those of the recorded work
    [[nodiscard]] bool is_done() const { return detail::is_done(handle_); }
    /// Blocks the host until all recorded work has completed.
    ///
    /// \throws error  errors of CUDA, including those of the recorded work
    void wait() const { detail::wait(handle_); }

   private:
    cudaEvent_t handle_ = nullptr;
};

}  // namespace FERRY_NAMESPACE::cuda
