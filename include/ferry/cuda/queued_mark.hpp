// ferry: waits for queued work before its memory is released.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/detail/events/idle_events.hpp>
#include <ferry/cuda/detail/events/thread_event.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/stream.hpp>

#include <cstdint>
#include <utility>

namespace FERRY_NAMESPACE::cuda {

/// Represents the work queued on a stream at construction. The destructor, which may run on any thread, blocks the host
/// until that work has completed. It does nothing after CUDA has shut down or the device has been reset. Move-only.
class queued_mark {
   public:
    /// Constructs a mark that represents no work.
    queued_mark() = default;
    /// Records an event. Does not block.
    ///
    /// \param on  CUDA stream
    /// \throws error  errc::stream, capturing; errors of CUDA
    explicit queued_mark(stream_token on) {
        detail::require_stream(on, "ferry::cuda::queued_mark");
        std::int32_t const device_id = detail::device_of(on, "ferry::cuda::queued_mark");
        device_guard const current{device_id};
        auto const taken = detail::idle_events::all().take(device_id, detail::context_id_of(device_id));
        try {
            detail::record(taken.e, detail::handle_of(on));
        } catch (...) {
            detail::idle_events::all().put({&taken, 1});
            throw;
        }
        event_ = taken;
    }
    queued_mark(queued_mark&& other) noexcept : event_{std::exchange(other.event_, {})} {}
    queued_mark& operator=(queued_mark&& other) noexcept {
        std::swap(event_, other.event_);
        return *this;
    }
    ~queued_mark() {
        if (event_.e == nullptr || is_reset()) return;
        detail::wait_to_release(event_.e);  // does not depend on the current device
        detail::idle_events::all().put({&event_, 1});
    }

    /// Makes later work on a stream wait for the work of this mark. Does not block.
    ///
    /// \param on  CUDA stream
    /// \throws error  errc::stream, capturing; errors of CUDA
    void order_before(stream_token on) const {
        if (event_.e == nullptr) return;
        detail::require_stream(on, "ferry::cuda::queued_mark");
        detail::on_device_of(on, [&](cudaStream_t s) {
            detail::require_no_capture(s, "ferry::cuda::queued_mark");
            check(cudaStreamWaitEvent(s, event_.e, 0), "cudaStreamWaitEvent");
        });
    }
    /// Returns whether the work of this mark has completed, or will not run. Does not block.
    [[nodiscard]] bool is_done() const noexcept {
        if (event_.e == nullptr) return true;
        cudaError_t const asked = cudaEventQuery(event_.e);
        detail::ignore(asked);
        return asked != cudaErrorNotReady;
    }
    /// Makes this mark represent no work. Does not block.
    void discard() noexcept {
        if (event_.e != nullptr) detail::idle_events::all().put({&event_, 1});
        event_ = {};
    }

   private:
    /// Returns whether the device has been reset since the event was recorded, in which case the event and the work no
    /// longer exist. False when unknown.
    [[nodiscard]] bool is_reset() const noexcept {
        try {
            device_guard const current{event_.device_id};
            auto const now = detail::context_id_of(event_.device_id);
            return now != 0 && event_.context != 0 && now != event_.context;
        } catch (...) {
            return false;
        }
    }

    detail::pooled_event event_{};
};

}  // namespace FERRY_NAMESPACE::cuda
