// ferry: CUDA events for Arrow's C device interface.
#pragma once

#include <ferry/arrow/events.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/cuda/system.hpp>

#include <cstdint>
#include <utility>

namespace ferry::inline v0::cuda {

/// An event with the address of its handle, which is what `ArrowDeviceArray::sync_event` holds for CUDA: a
/// cudaEvent_t*.
class arrow_event {
   public:
    explicit arrow_event(event e) noexcept : event_{std::move(e)}, handle_{event_.get()} {}
    [[nodiscard]] void* get() const noexcept { return &handle_; }

   private:
    event event_;
    mutable cudaEvent_t handle_;  // the consumer's pointer is not to const
};

/// The stateless back end with Arrow's events: `ferry::from_arrow(&array, &schema, ferry::cuda::arrow, stream)`.
/// Thread-safe.
///
/// Source: "Synchronization event types" of the Arrow C device data interface: a cudaEvent_t* for CUDA, pinned and
/// managed memory.
struct arrow_back_end : system_back_end {
    /// Work queued on `on` later runs after the event, of whatever device; without a stream the host waits for it, and
    /// for nothing else. \throws error  errc::stream, capturing;  argument: a null handle;  what the driver reports
    void wait_for_event(void* event, device, stream_token on) const {
        auto const handle = *static_cast<cudaEvent_t const*>(event);
        if (handle == nullptr)
            ferry::detail::fail(errc::argument, "ferry::from_arrow",
                                message{"sync_event points to a null cudaEvent_t"});
        if (!on.names_stream()) {
            detail::beside_captures const quietly;
            return check(cudaEventSynchronize(handle), "cudaEventSynchronize");  // mutant: cuda_arrow_host_wait
        }
        detail::require_stream(on, "ferry::from_arrow");
        detail::on_device_of(on, [&](cudaStream_t s) {
            detail::require_no_capture(s, "ferry::from_arrow");
            check(cudaStreamWaitEvent(s, handle, 0), "cudaStreamWaitEvent");  // mutant: cuda_arrow_wait
        });
    }
    /// A new event on the stream's device, after all that is queued on the stream now.
    /// \throws error  errc::stream, capturing;  what the driver reports
    [[nodiscard]] arrow_event record_event(device, stream_token on) const {
        detail::require_stream(on, "ferry::to_arrow");
        device_guard const current{detail::device_of(on, "ferry::to_arrow")};
        detail::require_free_default(on, "ferry::to_arrow");
        event made;
        made.record(detail::handle_of(on));  // mutant: cuda_arrow_record
        return arrow_event{std::move(made)};
    }
};

/// The back end to pass where Arrow's device arrays come in or go out.
inline constexpr arrow_back_end arrow{};

}  // namespace ferry::inline v0::cuda
