// ferry: CUDA events for Arrow's C device interface.
#pragma once

#include <ferry/arrow/events.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/event_ref.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/cuda/system.hpp>

#include <cstdint>
#include <utility>

namespace FERRY_NAMESPACE::cuda {

/// Owns an event, and provides the `cudaEvent_t*` that `ArrowDeviceArray::sync_event` stores for CUDA devices.
class arrow_event {
   public:
    /// Takes ownership of an event.
    ///
    /// \param e  event to own
    explicit arrow_event(event e) noexcept : event_{std::move(e)}, handle_{event_.get()} {}
    /// Returns a `cudaEvent_t*`, valid until this object is moved from or destroyed.
    [[nodiscard]] void* get() const noexcept { return &handle_; }

   private:
    event event_;
    mutable cudaEvent_t handle_;  // consumers expect a pointer to non-const
};

/// The stateless CUDA back end, extended with events for Arrow's C device interface, for calls such as
/// `ferry::from_arrow(&array, &schema, ferry::cuda::arrow, stream)`. Thread-safe.
///
/// Source: "Synchronization event types" in the specification of the Arrow C device data interface: a `cudaEvent_t*`
/// for CUDA, CUDA_HOST and CUDA_MANAGED.
struct arrow_back_end : system_back_end {
    /// Makes later work on `on` wait for an event. Without a stream, blocks the host until the event has completed.
    ///
    /// \param event  a `cudaEvent_t*`, not null; its event may belong to any device
    /// \param on     stream that waits; without one, the host waits
    /// \throws error  errc::argument for a null cudaEvent_t; errc::stream, capturing; errors of CUDA
    void wait_for_event(void* event, device, stream_token on) const {
        auto const handle = *static_cast<cudaEvent_t const*>(event);
        if (handle == nullptr)
            ferry::detail::fail(
                errc::argument, "ferry::from_arrow",
                message{"sync_event points to a null cudaEvent_t, expected an event: correct the producer, which must "
                        "set sync_event to NULL when there is nothing to wait for"});
        detail::wait_for_event(handle, on, "ferry::from_arrow");
    }
    /// Records a new event, which completes after all work that is already queued on `on`. Does not block.
    ///
    /// \param on  CUDA stream; the event belongs to its device
    /// \return    the event, owned by the caller
    /// \throws error  errc::stream, capturing; errors of CUDA
    [[nodiscard]] arrow_event record_event(device, stream_token on) const {
        detail::require_stream(on, "ferry::to_arrow");
        device_guard const current{detail::device_of(on, "ferry::to_arrow")};
        detail::require_uncaptured_default(on, "ferry::to_arrow");
        event made;
        made.record(detail::handle_of(on));
        return arrow_event{std::move(made)};
    }
};

/// Instance of the back end, for from_arrow and to_arrow.
inline constexpr arrow_back_end arrow{};

}  // namespace FERRY_NAMESPACE::cuda
