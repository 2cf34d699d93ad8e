// ferry: requirements of a back end that records the events of Arrow's C device interface and waits for them.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/result.hpp>
#include <ferry/base/stream_token.hpp>

#include <concepts>

namespace ferry::inline FERRY_ABI_NAMESPACE {

/// A movable object that owns an event. `get()` returns the pointer for `ArrowDeviceArray::sync_event`, for CUDA a
/// cudaEvent_t*, which is valid until the object is destroyed. It may be destroyed on any thread.
///
/// \tparam E  type of the event
template <class E>
concept owned_arrow_event = std::move_constructible<E> && requires(E const& e) {
    { e.get() } -> std::convertible_to<void*>;
};

/// A back end for arrays in device memory. It need not copy or allocate. All operations except `reaches` may return
/// `result<R>` instead of R.
///
/// - `reaches(device)` returns whether it can order work on a device.
/// - `wait_for_event(event, device, on)` makes work that is queued on `on` later run after the event; the host waits if
///   `on` names no stream. `event` is a `sync_event` of that device, not null, and not used after the call returns.
/// - `record_event(device, on)` returns an event after all work that is queued on `on`.
///
/// \tparam B  back end
template <class B>
concept arrow_event_back_end = requires(B& b, void* event, device d, stream_token on) {
    { b.reaches(d) } -> std::same_as<bool>;
    b.wait_for_event(event, d, on);
    requires owned_arrow_event<detail::value_of<decltype(b.record_event(d, on))>>;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE
