// ferry: requirements of a back end that records the events of Arrow's C device interface and waits for them.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/result.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/space/detail/any_owner.hpp>
#include <ferry/space/detail/operations.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE {

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

namespace detail {
struct has_arrow_events {
    template <class B>
    static constexpr bool of = arrow_event_back_end<B>;
};
/// A back end that is an arrow_event_back_end, or that replaces some operations of one.
template <class B>
concept reaches_arrow_events = !std::is_void_v<operations_found<has_arrow_events, std::remove_reference_t<B>>>;
/// Calls the operations of an arrow_event_back_end of any type.
class arrow_event_calls {
   public:
    [[nodiscard]] bool reaches(device d) const { return reaches_(object_, d); }
    void wait_for_event(void* event, device d, stream_token on) const { wait_(object_, event, d, on); }
    [[nodiscard]] any_owner record_event(device d, stream_token on) const { return record_(object_, d, on); }

   protected:
    void* object_ = nullptr;
    bool (*reaches_)(void*, device) = nullptr;
    void (*wait_)(void*, void*, device, stream_token) = nullptr;
    any_owner (*record_)(void*, device, stream_token) = nullptr;
};
/// An event, as an owner whose `data()` is its `get()`.
template <class E>
struct owned_event {
    [[nodiscard]] void* data() const { return event.get(); }
    E event;
};
}  // namespace detail

/// A reference to an arrow_event_back_end of any type, including a temporary one for the duration of a call. Its
/// operations throw their errors. The back end must outlive the reference. As thread-safe as the back end.
class arrow_events_ref : public detail::arrow_event_calls {
   public:
    /// References a back end.
    ///
    /// \param b  back end
    template <class B>
        requires(!std::same_as<std::remove_cvref_t<B>, arrow_events_ref> && detail::reaches_arrow_events<B>)
    constexpr arrow_events_ref(B&& b FERRY_LIFETIME_BOUND) noexcept {
        auto* const found = detail::find_operations<detail::has_arrow_events>(b);
        using type = std::remove_pointer_t<decltype(found)>;
        object_ = const_cast<std::remove_const_t<type>*>(found);
        reaches_ = [](void* at, device d) { return detail::at<type>(at).reaches(d); };
        wait_ = [](void* at, void* event, device d, stream_token on) {
            detail::call([&] { return detail::at<type>(at).wait_for_event(event, d, on); });
        };
        record_ = [](void* at, device d, stream_token on) {
            auto event = detail::call([&] { return detail::at<type>(at).record_event(d, on); });
            return detail::own_result([&] { return detail::owned_event<decltype(event)>{std::move(event)}; }).value();
        };
    }
};

}  // namespace FERRY_NAMESPACE
