// ferry: the customisation point of array libraries, and the concepts of its optional members.
#pragma once

#include <ferry/base/result.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/typed_view_traits.hpp>
#include <ferry/tensor/inplace_view.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE {

/// Customisation point: an array library specialises it for its array type.
///
/// Only `view` is required, for T& and for T const&. Each of the other members adds a capability.
///
/// - `tensor_view view(T&)`, `tensor_view view(T const&)`: returns a view of the elements; the second returns a
///   read-only view, unless copies of T are handles to the same elements. The extents and strides of the view must
///   exist as long as the array; an `inplace_view<N>` contains them. Fails for arrays that are not a single tensor on a
///   single device, such as sharded or sparse arrays (R41).
/// - `Owner share(T const&)`: returns another owner of the same memory; required to export lvalues without a copy.
/// - `T adopt(managed_tensor)` or `T adopt(managed_tensor&&)`: takes ownership of a tensor without a copy. With a
///   second parameter, `T adopt(managed_tensor, stream_token)`, it receives the stream on which the data is ready, or
///   ferry::already_ready if no work is pending; `ready_on` of the new array must return that stream. If both overloads
///   exist, ferry calls the one with two parameters.
/// - `T allocate(data_type, shape_view, device)`: returns a new compact array on that device for copies. Work on any
///   stream may write to the array immediately, so no earlier work on its memory may be pending. Fails for unsupported
///   devices. With a fourth parameter, `T allocate(data_type, shape_view, device, stream_token)`, it receives the
///   stream that first writes to the array, or no stream; only work on that stream may write to the array immediately.
/// - `stream_token ready_on(T const&)`: returns the stream of pending work on the array, or ferry::already_ready. It
///   may instead return an event that completes when the data is ready (`ready_event`); ferry then calls `ready_on`
///   only if a stream or the host must wait, and the consumer does not wait for work that was queued after the event.
/// - `stream_token current_stream(device)`: returns the stream on which the calling thread will use imported tensors.
/// - `ferry::device device(T const&)`: returns the device of the elements of an array, without a view; if it is absent,
///   ferry calls `view`. Within the specialisation, the unqualified name `device` refers to this member: write
///   `ferry::device` for the type.
/// - `static constexpr bool owns`: whether an rvalue keeps its elements alive (D13). If it is absent, ferry assumes
///   true for a type with a non-trivial destructor, and for an object that contains all elements. If only some arrays
///   of a type own their elements, define a function: `static bool owns(T const&)`.
/// - `static constexpr bool vector_elements`, `static constexpr bool padded_elements`: whether imports support short
///   vectors and padded sub-byte elements; see `accepts_vectors` and `accepts_padded`.
/// - `static constexpr bool lend_read_only`: whether read-only arrays are shared with consumers that request the legacy
///   struct, which has no flag for read-only data (R15); such consumers must not write. If it is absent or false, they
///   receive a copy.
///
/// To report failures without exceptions, `view`, `share`, `adopt` and `allocate` may return `result<R>` instead of the
/// type R that is listed above.
///
/// All members must be public and static; overload sets and templates are allowed. A member with one of these names and
/// an unsupported signature does not compile; see exchange/detail/adapter.hpp. A type without `view` may have a member
/// function `ferry_view()` instead.
template <class Array>
struct array_traits;

namespace detail {

/// `view` takes the array by value. The elements of the view may then be destroyed with that copy.
template <class T>
concept view_takes_value = requires(T& a) {
    static_cast<decltype(array_traits<T>::view(a)) (*)(T)>(array_traits<T>::view);
};

/// The return type of `adopt`.
template <class T, class... Stream>
using adopted = decltype(array_traits<T>::adopt(std::declval<managed_tensor>(), std::declval<Stream>()...));

/// `adopt` takes the tensor by value or as an rvalue. An `adopt` that takes a const reference cannot take ownership.
template <class T>
concept takes_over = requires { static_cast<adopted<T> (*)(managed_tensor)>(array_traits<T>::adopt); } || requires {
    static_cast<adopted<T> (*)(managed_tensor&&)>(array_traits<T>::adopt);
} || !requires(managed_tensor const& m) { array_traits<T>::adopt(m); };

/// `adopt` can be called with a stream, regardless of its return type.
template <class T>
concept declares_stream_of_adopt =
    requires(managed_tensor m, stream_token ready) { array_traits<T>::adopt(std::move(m), ready); };

/// Like `takes_over`, for an `adopt` with two parameters.
template <class T>
concept takes_over_with_stream = requires {
    static_cast<adopted<T, stream_token> (*)(managed_tensor, stream_token)>(array_traits<T>::adopt);
} || requires {
    static_cast<adopted<T, stream_token> (*)(managed_tensor&&, stream_token)>(array_traits<T>::adopt);
} ||
    !requires(managed_tensor const& m, stream_token ready) { array_traits<T>::adopt(m, ready); };

}  // namespace detail

/// Satisfied if array_traits<T>::view accepts the array by reference and returns a tensor_view or an inplace_view. The
/// array need not own its elements.
template <class Array>
concept has_traits_view = !detail::view_takes_value<std::remove_cv_t<Array>> && requires(Array& a) {
    requires std::derived_from<detail::value_of<decltype(array_traits<std::remove_cv_t<Array>>::view(a))>, tensor_view>;
};

/// Satisfied if the array has a member function `ferry_view` and array_traits<T>::view does not accept the array.
template <class Array>
concept has_member_view = !has_traits_view<Array> && requires(Array& a) {
    requires std::derived_from<detail::value_of<decltype(a.ferry_view())>, tensor_view>;
};

/// An array with a view: array_traits<T>::view, or a member function `ferry_view`. The array need not own its elements.
template <class Array>
concept viewable = has_traits_view<Array> || has_member_view<Array>;

/// Satisfied if array_traits<T>::share returns an owner by value. If it returned a reference, ferry could own the
/// object only by copying its elements. The owner need not have the type of the array.
template <class Array>
concept shareable = viewable<Array> && requires(Array const& a) {
    requires viewable<detail::value_of<decltype(array_traits<std::remove_cv_t<Array>>::share(a))>>;
    requires std::same_as<decltype(array_traits<std::remove_cv_t<Array>>::share(a)),
                          std::remove_cvref_t<decltype(array_traits<std::remove_cv_t<Array>>::share(a))>>;
};

/// Satisfied if array_traits<T>::owns is false: the elements belong to another object, as with a span, and an rvalue
/// does not keep them alive (D13). The array need not be `viewable`.
template <class Array>
concept non_owning = requires {
    requires std::same_as<decltype(array_traits<std::remove_cv_t<Array>>::owns), bool const>;
    requires !array_traits<std::remove_cv_t<Array>>::owns;
};

/// Satisfied if array_traits<T>::owns is a function, for types of which only some arrays own their elements. The array
/// need not be `viewable`.
template <class Array>
concept has_run_time_ownership = requires(Array const& a) {
    { array_traits<std::remove_cv_t<Array>>::owns(a) } -> std::same_as<bool>;
};

/// An event that completes when the data of an array is ready: an object of a class that has a member function
/// `wait_for_event(device, stream_token on) const`, or for which the back end of the exchange has
/// `wait_for_event(event, device, on)`. The function makes later work on `on` wait for the event; if `on` names no
/// stream, it blocks the host until the event has completed. The event need not be copyable, and is destroyed after the
/// function returns.
template <class E>
concept ready_event = std::is_class_v<E> && !std::same_as<E, stream_token> && !detail::is_result<E>;

/// Satisfied if array_traits<T>::ready_on returns the stream of pending work. Not required for host memory, which has
/// no streams.
template <class Array>
concept has_ready_on = requires(Array const& a) {
    { array_traits<std::remove_cv_t<Array>>::ready_on(a) } -> std::same_as<stream_token>;
};

/// Satisfied if array_traits<T>::device returns the device of an array. The array need not be `viewable`.
template <class Array>
concept has_device = requires(Array const& a) {
    { array_traits<std::remove_cv_t<Array>>::device(a) } -> std::same_as<ferry::device>;
};

/// Satisfied if array_traits<T>::lend_read_only is true: read-only arrays are shared with legacy consumers. The array
/// need not be `viewable`.
template <class Array>
concept lends_read_only = requires { requires array_traits<std::remove_cv_t<Array>>::lend_read_only; };

/// Satisfied if array_traits<T>::ready_on returns an event that completes when the data is ready. Not required for host
/// memory.
template <class Array>
concept has_ready_event = requires(Array const& a) {
    { array_traits<std::remove_cv_t<Array>>::ready_on(a) } -> ready_event;
};

/// Satisfied if array_traits<T>::allocate accepts the stream that first writes to the array, for stream-ordered memory
/// pools. It need not support every device.
template <class Array>
concept allocates_with_stream = viewable<Array> && requires(data_type t, shape_view s, device d, stream_token on) {
    requires std::same_as<detail::value_of<decltype(array_traits<std::remove_cv_t<Array>>::allocate(t, s, d, on))>,
                          std::remove_cv_t<Array>>;
};

/// Satisfied if array_traits<T>::allocate returns a new array for a copy. It need not support every device, and need
/// not have the fourth parameter.
template <class Array>
concept allocates =
    allocates_with_stream<Array> || (viewable<Array> && requires(data_type t, shape_view s, device d) {
        requires std::same_as<detail::value_of<decltype(array_traits<std::remove_cv_t<Array>>::allocate(t, s, d))>,
                              std::remove_cv_t<Array>>;
    });

namespace detail {

/// Calls array_traits<Array>::allocate, and passes the stream that first writes to the array if it has that parameter.
template <allocates Array>
[[nodiscard]] auto allocate_array(data_type type, shape_view shape, device dev, [[maybe_unused]] stream_token on) {
    if constexpr (allocates_with_stream<Array>)
        return array_traits<Array>::allocate(type, shape, dev, on);
    else return array_traits<Array>::allocate(type, shape, dev);
}

/// `allocate` can be called with a stream, regardless of its return type.
template <class T>
concept declares_stream_of_allocate = requires(data_type t, shape_view s, device d, stream_token on) {
    array_traits<T>::allocate(t, s, d, on);
};

}  // namespace detail

/// Satisfied if array_traits<T>::adopt accepts a tensor and the stream on which its data is ready. T need not use that
/// stream for its work.
template <class T>
concept adopts_with_stream = requires(managed_tensor m, stream_token ready) {
    requires std::same_as<detail::value_of<decltype(array_traits<T>::adopt(std::move(m), ready))>, T>;
} && detail::takes_over_with_stream<T>;

/// Satisfied if array_traits<T>::adopt accepts a tensor. T need not be exportable, and `adopt` need not have the second
/// parameter.
template <class T>
concept adopting = adopts_with_stream<T> || (requires(managed_tensor m) {
    requires std::same_as<detail::value_of<decltype(array_traits<T>::adopt(std::move(m)))>, T>;
} && detail::takes_over<T>);

/// Satisfied if array_traits<T>::current_stream returns the current stream of the calling thread. `ready_on` is not
/// required.
template <class Array>
concept has_current_stream = requires(device d) {
    { array_traits<std::remove_cv_t<Array>>::current_stream(d) } -> std::same_as<stream_token>;
};

}  // namespace FERRY_NAMESPACE
