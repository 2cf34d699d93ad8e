// ferry: detects streams that are being captured, and keeps ferry's own calls out of the graph.
#pragma once

#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/detail/toolkit.hpp>
#include <ferry/cuda/error.hpp>

namespace FERRY_NAMESPACE::cuda::detail {

// The enumerators of the driver and the runtime API have the same values.
static_assert(static_cast<int>(CU_STREAM_CAPTURE_STATUS_ACTIVE) == static_cast<int>(cudaStreamCaptureStatusActive) &&
              static_cast<int>(CU_STREAM_CAPTURE_STATUS_INVALIDATED) ==
                  static_cast<int>(cudaStreamCaptureStatusInvalidated) &&
              static_cast<int>(CU_STREAM_CAPTURE_MODE_GLOBAL) == static_cast<int>(cudaStreamCaptureModeGlobal) &&
              static_cast<int>(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) ==
                  static_cast<int>(cudaStreamCaptureModeThreadLocal) &&
              static_cast<int>(CU_STREAM_CAPTURE_MODE_RELAXED) == static_cast<int>(cudaStreamCaptureModeRelaxed));

/// Returns the id of the capture that a stream participates in, or 0. Does not invalidate a capture. While a
/// blocking stream of the device is being captured, the only call permitted on the legacy stream is
/// cudaStreamIsCapturing, which this function calls first and which then returns an error.
///
/// \throws error  errc::capturing when the capture is invalidated, or when the legacy stream would join a capture
[[nodiscard]] inline unsigned long long capture_of(cudaStream_t s, char const* api) {
    CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    CUresult const asked = driver().stream_is_capturing(s, &now);
    check_driver(asked, "cuStreamIsCapturing", [&] { return cudaStreamIsCapturing(s, &status); });
    if (asked == CUDA_SUCCESS) status = static_cast<cudaStreamCaptureStatus>(now);
    if (status == cudaStreamCaptureStatusNone) return 0;
    if (status == cudaStreamCaptureStatusInvalidated)
        ferry::detail::fail(errc::capturing, api,
                            message{"the stream's capture is invalidated: end it with cudaStreamEndCapture first"});
    unsigned long long id = 0;
    get_capture(s, status, &id, nullptr, nullptr, nullptr);
    return id;
}

/// Throws errc::capturing when the stream is being captured. Called before anything is queued.
inline void require_no_capture(cudaStream_t s, char const* api) {
    if (capture_of(s, api) != 0)
        ferry::detail::fail(errc::capturing, api,
                            message{"the stream is being captured: call this before or after the capture"});
}

/// Returns whether no graph would capture work that is queued on a stream; false also when the query fails.
[[nodiscard]] inline bool is_free_of_captures(cudaStream_t s) noexcept {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(s, &status) == cudaSuccess) return status == cudaStreamCaptureStatusNone;
    static_cast<void>(cudaGetLastError());
    return false;
}

/// Sets the capture mode of this thread to cudaStreamCaptureModeRelaxed for the lifetime of the object, for calls that
/// are not part of a graph. In the other modes, calls that allocate or wait fail while another thread is capturing a
/// stream, and invalidate that capture.
class relaxed_capture_mode {
   public:
    relaxed_capture_mode() noexcept { exchange_by_runtime(); }
    /// Sets the mode through the driver API, which is faster. Deleters must not use this constructor, because they may
    /// run after CUDA has shut down.
    explicit relaxed_capture_mode(driver_api const& by) noexcept : exchange_{by.exchange_capture_mode} {
        if (exchange() == CUDA_SUCCESS) return;
        exchange_ = nullptr;  // CUDA is not initialised yet: the runtime initialises it
        exchange_by_runtime();
    }
    relaxed_capture_mode(relaxed_capture_mode const&) = delete;
    relaxed_capture_mode& operator=(relaxed_capture_mode const&) = delete;
    ~relaxed_capture_mode() {
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
    bool is_changed_ = false;  // whether the destructor has a mode to restore
};

/// Clears a non-sticky error that is not reported, so that no later call returns it.
inline void ignore(cudaError_t e) noexcept {
    if (e != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace FERRY_NAMESPACE::cuda::detail
