// ferry: streams that are being captured into a graph, and how to leave them alone.
#pragma once

#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>

namespace ferry::inline v0::cuda::detail {

// Enumerators of the two APIs are the same numbers.
static_assert(static_cast<int>(CU_STREAM_CAPTURE_STATUS_ACTIVE) == static_cast<int>(cudaStreamCaptureStatusActive) &&
              static_cast<int>(CU_STREAM_CAPTURE_STATUS_INVALIDATED) ==
                  static_cast<int>(cudaStreamCaptureStatusInvalidated) &&
              static_cast<int>(CU_STREAM_CAPTURE_MODE_GLOBAL) == static_cast<int>(cudaStreamCaptureModeGlobal) &&
              static_cast<int>(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) ==
                  static_cast<int>(cudaStreamCaptureModeThreadLocal) &&
              static_cast<int>(CU_STREAM_CAPTURE_MODE_RELAXED) == static_cast<int>(cudaStreamCaptureModeRelaxed));

/// The capture that a stream takes part in; 0 when it takes part in none. Disturbs no capture: of the legacy stream of
/// a device on which a blocking stream is captured only cudaStreamIsCapturing may be asked, and it refuses
/// (errc::capturing).
/// \throws error  errc::capturing when the capture is invalid, or when the legacy stream would join one
[[nodiscard]] inline unsigned long long capture_of(cudaStream_t s, char const* api) {
    CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    CUresult const asked = driver().stream_is_capturing(s, &now);
    check_driver(asked, "cuStreamIsCapturing", [&] { return cudaStreamIsCapturing(s, &status); });
    if (asked == CUDA_SUCCESS) status = static_cast<cudaStreamCaptureStatus>(now);
    if (status == cudaStreamCaptureStatusNone) return 0;
    if (status == cudaStreamCaptureStatusInvalidated)
        ferry::detail::fail(errc::capturing, api, message{"the stream's capture is invalid: end it first"});
    unsigned long long id = 0;
    check(cudaStreamGetCaptureInfo(s, &status, &id, nullptr, nullptr, nullptr, nullptr), "cudaStreamGetCaptureInfo");
    return id;
}

/// Refuses what would disturb a capture, before anything is queued.
inline void require_no_capture(cudaStream_t s, char const* api) {
    if (capture_of(s, api) != 0)
        ferry::detail::fail(errc::capturing, api,
                            message{"the stream is being captured into a graph: exchange before or after the capture"});
}

/// Whether work may be queued on a stream without any capture noticing; false too when nothing can be asked any more.
[[nodiscard]] inline bool is_free_of_captures(cudaStream_t s) noexcept {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(s, &status) == cudaSuccess) return status == cudaStreamCaptureStatusNone;
    static_cast<void>(cudaGetLastError());
    return false;
}

/// For its lifetime this thread may allocate, free and wait although some thread captures: by default CUDA would refuse
/// that and invalidate the capture. For calls that no graph is meant to see.
class beside_captures {
   public:
    beside_captures() noexcept { exchange_by_runtime(); }
    /// The same at a fraction of the cost, for where CUDA has not ended: not in deleters.
    explicit beside_captures(driver_api const& by) noexcept : exchange_{by.exchange_capture_mode} {
        if (exchange() == CUDA_SUCCESS) return;
        exchange_ = nullptr;  // nothing of CUDA has run yet: the runtime begins
        exchange_by_runtime();
    }
    beside_captures(beside_captures const&) = delete;
    beside_captures& operator=(beside_captures const&) = delete;
    ~beside_captures() {
        if (exchange_ != nullptr) static_cast<void>(exchange());
        else if (is_changed_) exchange_by_runtime();
    }

   private:
    void exchange_by_runtime() noexcept { is_changed_ = cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess; }
    [[nodiscard]] CUresult exchange() noexcept {
        auto mode = static_cast<CUstreamCaptureMode>(mode_);
        CUresult const r = exchange_(&mode);
        mode_ = static_cast<cudaStreamCaptureMode>(mode);
        return r;
    }

    CUresult (*exchange_)(CUstreamCaptureMode*) = nullptr;
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
    bool is_changed_ = false;  // else the thread would keep the mode that it was never given
};

/// Clears a failure that nobody is told of, so that no later call finds it.
inline void ignore(cudaError_t e) noexcept {
    if (e != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace ferry::inline v0::cuda::detail
