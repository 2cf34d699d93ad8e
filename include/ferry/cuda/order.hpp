// ferry: the waits between CUDA streams, and of the host for one of them (R43).
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/stream.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace ferry::cuda {
namespace detail {

/// Records the event of this thread for one device, and gives it. A wait refers to the latest record when it is queued, so
/// that one event serves all that a thread orders, one after the other. An event from before a reset of its device is replaced.
[[nodiscard]] inline cudaEvent_t record(std::int32_t device_id, cudaStream_t s) {
    struct slot {
        std::int32_t device_id;
        event e;
    };
    thread_local std::vector<slot> slots;
    auto const make = [device_id] {
        device_guard const on{device_id};
        beside_captures const quietly;
        return event{};
    };
    slot* mine = nullptr;
    for (auto& known : slots)
        if (known.device_id == device_id) mine = &known;
    bool const kept = mine != nullptr;
    if (!kept) mine = &slots.emplace_back(slot{device_id, make()});
    cudaError_t e = cudaEventRecord(mine->e.get(), s);
    if (kept && (e == cudaErrorInvalidResourceHandle || e == cudaErrorContextIsDestroyed)) {
        ignore(e);
        mine->e.abandon();
        mine->e = make();
        e = cudaEventRecord(mine->e.get(), s);
    }
    check(e, "cudaEventRecord");
    return mine->e.get();
}

/// An event that has been recorded: the thread's, or one of its own within a capture, whose events belong to its graph.
class recorded_event {
   public:
    recorded_event(std::int32_t device_id, cudaStream_t s, bool captured) {
        if (!captured) {
            handle_ = record(device_id, s);
            return;
        }
        own_.emplace();
        own_->record(s);
        handle_ = own_->get();
    }
    [[nodiscard]] cudaEvent_t get() const noexcept { return handle_; }

   private:
    std::optional<event> own_;
    cudaEvent_t handle_ = nullptr;
};

inline void require_same_capture(unsigned long long from, unsigned long long to) {
    if (from != to)
        ferry::detail::fail(errc::capturing, "ferry::cuda::order",
                            message{"one of the streams is being captured, and not both into the same graph: exchange before or after "
                                    "the capture, or between streams of it"});
}

}  // namespace detail

/// Makes work queued on `to` later run after all that is queued on `from` now: an event recorded and waited for. Equal streams
/// cost no call. The streams may be of different devices. Never blocks the host.
///
/// Streams under capture are ordered when both belong to the same capture; otherwise the call is refused before it disturbs
/// one. \throws error  errc::capturing, stream; what the driver reports
inline void order(stream_token from, stream_token to) {
    if (from == to || !from.names_stream() || !to.names_stream()) return;
    detail::require_stream(from, "ferry::cuda::order");
    detail::require_stream(to, "ferry::cuda::order");
    cudaStream_t const source = detail::handle_of(from), target = detail::handle_of(to);
    std::int32_t const source_device = detail::device_of(from), target_device = detail::device_of(to);
    device_guard const on{source_device};
    auto const capture = detail::capture_of(source);
    if (target_device == source_device) {
        detail::require_same_capture(capture, detail::capture_of(target));
        check(cudaStreamWaitEvent(target, detail::recorded_event{source_device, source, capture != 0}.get(), 0), "cudaStreamWaitEvent");
        return;
    }
    {
        device_guard const there{target_device};
        detail::require_same_capture(capture, detail::capture_of(target));
    }
    detail::recorded_event const recorded{source_device, source, capture != 0};
    device_guard const there{target_device};
    check(cudaStreamWaitEvent(target, recorded.get(), 0), "cudaStreamWaitEvent");
}

/// Blocks the host until all that is queued on a stream has run. \throws error  errc::capturing, stream; what the driver reports
inline void wait(stream_token on) {
    if (!on.names_stream()) return;
    detail::require_stream(on, "ferry::cuda::wait");
    device_guard const current{detail::device_of(on)};
    detail::require_no_capture(detail::handle_of(on), "ferry::cuda::wait");
    detail::beside_captures const quietly;
    check(cudaStreamSynchronize(detail::handle_of(on)), "cudaStreamSynchronize");
}

}  // namespace ferry::cuda
