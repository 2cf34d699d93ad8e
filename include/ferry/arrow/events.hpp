// ferry: who waits for the events of Arrow's C device interface, and records them.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>

#include <concepts>

namespace ferry::inline v0 {

/// An event that a back end has recorded: movable; `get()` is what `ArrowDeviceArray::sync_event` holds, for CUDA a
/// cudaEvent_t*, and stays valid until the event dies, on whatever thread.
template <class E>
concept owned_arrow_event = std::move_constructible<E> && requires(E const& e) {
    { e.get() } -> std::convertible_to<void*>;
};

/// What arrays off the host need of a back end. Not required: that it copies or allocates.
///
/// - `reaches(device)`: whether it can order work there.
/// - `wait_for_event(event, device, on)`: work queued on `on` later runs after the event; the host waits when `on`
/// names no
///   stream. `event` is a `sync_event` of that device, never null, and not used after the call returns.
/// - `record_event(device, on)`: an event after all that is queued on `on` now.
template <class B>
concept arrow_event_back_end = requires(B& b, void* event, device d, stream_token on) {
    { b.reaches(d) } -> std::same_as<bool>;
    b.wait_for_event(event, d, on);
    { b.record_event(d, on) } -> owned_arrow_event;
};

}  // namespace ferry::inline v0
