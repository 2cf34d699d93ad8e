// ferry: the waits between CUDA streams, and of the host for one of them (R43).
#pragma once

#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/stream.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::cuda {
namespace detail {

/// The capture that a stream takes part in; 0 when it takes part in none.
[[nodiscard]] inline unsigned long long capture_of(cudaStream_t s) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    check(cudaStreamGetCaptureInfo(s, &status, &id, nullptr, nullptr, nullptr, nullptr), "cudaStreamGetCaptureInfo");
    if (status == cudaStreamCaptureStatusInvalidated)
        ferry::detail::fail(errc::capturing, "ferry::cuda::order", message{"the stream's capture is invalid: end it first"});
    return status == cudaStreamCaptureStatusNone ? 0 : id;
}

/// Refuses what would disturb a capture, before anything is queued.
inline void require_no_capture(cudaStream_t s, char const* api) {
    if (capture_of(s) != 0)
        ferry::detail::fail(errc::capturing, api, message{"the stream is being captured into a graph: exchange before or after the capture"});
}

/// The event of this thread for one device. A wait refers to the latest record when it is queued, so that one event serves
/// all that a thread orders, one after the other.
[[nodiscard]] inline event& thread_event(std::int32_t device_id) {
    struct slot {
        std::int32_t device_id;
        event e;
    };
    thread_local std::vector<slot> slots;
    for (auto& s : slots)
        if (s.device_id == device_id) return s.e;
    return slots.emplace_back(slot{device_id, event{}}).e;
}

}  // namespace detail

/// Makes work queued on `to` later run after all that is queued on `from` now: an event recorded and waited for. Equal streams
/// cost no call. The streams may be of different devices. Never blocks the host.
///
/// Streams under capture are ordered when both belong to the same capture; otherwise the call is refused before it disturbs
/// one. \throws error  errc::capturing, stream; what the driver reports
inline void order(stream_token from, stream_token to) {
    if (from == to || !from.names_stream() || !to.names_stream()) return;
    cudaStream_t const source = detail::handle_of(from), target = detail::handle_of(to);
    std::int32_t const source_device = detail::device_of(from), target_device = detail::device_of(to);
    {
        device_guard const on{source_device};
        auto const capture = detail::capture_of(source);
        bool same = false;
        {
            device_guard const there{target_device};
            same = detail::capture_of(target) == capture;
        }
        if (!same)
            ferry::detail::fail(errc::capturing, "ferry::cuda::order",
                                message{"one of the streams is being captured, and not both into the same graph: exchange before or after "
                                        "the capture, or between streams of it"});
        if (capture != 0) {  // a captured event belongs to its graph: not one to use again
            event once;
            once.record(source);
            check(cudaStreamWaitEvent(target, once.get(), 0), "cudaStreamWaitEvent");
            return;
        }
        detail::thread_event(source_device).record(source);
    }
    device_guard const on{target_device};
    check(cudaStreamWaitEvent(target, detail::thread_event(source_device).get(), 0), "cudaStreamWaitEvent");
}

/// Blocks the host until all that is queued on a stream has run. \throws error  errc::capturing; what the driver reports
inline void wait(stream_token on) {
    if (!on.names_stream()) return;
    device_guard const current{detail::device_of(on)};
    detail::require_no_capture(detail::handle_of(on), "ferry::cuda::wait");
    check(cudaStreamSynchronize(detail::handle_of(on)), "cudaStreamSynchronize");
}

}  // namespace ferry::cuda
