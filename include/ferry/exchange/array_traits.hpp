// ferry: how an array library says what its arrays can do.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/fwd.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/view.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {

/// The customisation point of an array library: specialise it for the array type. Only `view` is needed, for T& and for
/// T const& (which yields a read-only tensor); each of the others adds an ability of its own:
///
/// - `tensor_view view(T&)`, `tensor_view view(T const&)`: where the elements are. Borrows extents and strides from the
/// array.
///   Throws where one tensor on one device cannot say it: sharded, sparse (R41).
/// - `Owner share(T const&)`: another handle to the same memory, so that an lvalue can be exported.
/// - `T adopt(managed_tensor)`: takes over a tensor without a copy; `T adopt(managed_tensor&&)` does as well. With a
///   second parameter, `T adopt(managed_tensor, stream_token)`, it is told the stream on which the data is ready, or
///   already_ready when nothing is pending: `ready_on` of the array then names that stream. Where both are there, ferry
///   calls the one with two parameters.
/// - `T allocate(data_type, shape_view, device)`: fresh memory of the library's own for copies, on that device, which
/// any
///   stream may write at once; throws where it has none.
/// - `stream_token ready_on(T const&)`: the stream on which pending work on the array runs, or already_ready.
/// - `stream_token current_stream(device)`: the stream on which this thread will use what it imports.
/// - `constexpr bool owns`: whether an rvalue keeps its elements alive (D13). Without it an array with a destructor of
///   its own does, and any other one if the elements lie within the object. Alternatively a function,
///   `bool owns(T const&)`, for a type of which only some arrays own their elements.
///
/// All are public and static; overload sets and templates will do. What has one of these names and another signature
/// does not compile: see exchange/detail/adapter.hpp. A type without `view` may have a member `ferry_view()` instead.
template <class Array>
struct array_traits;

namespace detail {

/// A view that takes the array by value, whose extents die with that copy.
template <class T>
concept view_takes_value = requires { static_cast<tensor_view (*)(T)>(array_traits<T>::view); };

/// It takes the tensor over, by value or as an rvalue. By const reference it cannot: the tensor would die after the
/// call.
template <class T>
concept takes_over = requires { static_cast<T (*)(managed_tensor)>(array_traits<T>::adopt); } || requires {
    static_cast<T (*)(managed_tensor&&)>(array_traits<T>::adopt);
} || !requires(managed_tensor const& m) { array_traits<T>::adopt(m); };

/// `adopt` can be called with a stream as well, whatever it returns.
template <class T>
concept declares_stream_of_adopt =
    requires(managed_tensor m, stream_token ready) { array_traits<T>::adopt(std::move(m), ready); };

/// The same as `takes_over`, of an `adopt` with two parameters.
template <class T>
concept takes_over_with_stream = requires {
    static_cast<T (*)(managed_tensor, stream_token)>(array_traits<T>::adopt);
} || requires { static_cast<T (*)(managed_tensor&&, stream_token)>(array_traits<T>::adopt); } ||
    !requires(managed_tensor const& m, stream_token ready) { array_traits<T>::adopt(m, ready); };

}  // namespace detail

/// array_traits<T>::view takes it, by reference. Not required: ownership.
template <class Array>
concept has_traits_view = !detail::view_takes_value<std::remove_cv_t<Array>> && requires(Array& a) {
    { array_traits<std::remove_cv_t<Array>>::view(a) } -> std::same_as<tensor_view>;
};

/// It describes itself by a member.
template <class Array>
concept has_member_view = !has_traits_view<Array> && requires(Array& a) {
    { a.ferry_view() } -> std::same_as<tensor_view>;
};

/// Its elements can be described. Not required: that anybody can own them.
template <class Array>
concept viewable = has_traits_view<Array> || has_member_view<Array>;

/// A second handle to its memory can be made, and is its own: a reference would be copied, with its elements. Not
/// required: that the handle has the array's type.
template <class Array>
concept shareable = viewable<Array> && requires(Array const& a) {
    { array_traits<std::remove_cv_t<Array>>::share(a) } -> viewable;
    requires std::same_as<decltype(array_traits<std::remove_cv_t<Array>>::share(a)),
                          std::remove_cvref_t<decltype(array_traits<std::remove_cv_t<Array>>::share(a))>>;
};

/// Its elements belong to another object, and an rvalue of it keeps nothing alive: a span, a map (D13). Not required: a
/// view.
template <class Array>
concept non_owning = requires {
    requires std::same_as<decltype(array_traits<std::remove_cv_t<Array>>::owns), bool const>;
    requires !array_traits<std::remove_cv_t<Array>>::owns;
};

/// Whether an array owns its elements depends on the array: array_traits<T>::owns is a function. Not required: a view.
template <class Array>
concept has_run_time_ownership = requires(Array const& a) {
    { array_traits<std::remove_cv_t<Array>>::owns(a) } -> std::same_as<bool>;
};

/// It says where its pending work runs. Not required on the host, where nothing is ever pending.
template <class Array>
concept has_ready_on = requires(Array const& a) {
    { array_traits<std::remove_cv_t<Array>>::ready_on(a) } -> std::same_as<stream_token>;
};

/// It has fresh memory of its own for copies.
template <class Array>
concept allocates = viewable<Array> && requires(data_type t, shape_view s, device d) {
    { array_traits<std::remove_cv_t<Array>>::allocate(t, s, d) } -> std::same_as<std::remove_cv_t<Array>>;
};

/// array_traits<T>::adopt takes over a tensor, and is told the stream on which its data is ready. Not required: that T
/// works on that stream.
template <class T>
concept adopts_with_stream = requires(managed_tensor m, stream_token ready) {
    { array_traits<T>::adopt(std::move(m), ready) } -> std::same_as<T>;
} && detail::takes_over_with_stream<T>;

/// array_traits<T>::adopt takes over a tensor. Not required: that T can be exported again, or that `adopt` has the
/// second parameter.
template <class T>
concept adopting = adopts_with_stream<T> || (requires(managed_tensor m) {
    { array_traits<T>::adopt(std::move(m)) } -> std::same_as<T>;
} && detail::takes_over<T>);

/// It knows the stream that the calling thread works on.
template <class Array>
concept has_current_stream = requires(device d) {
    { array_traits<std::remove_cv_t<Array>>::current_stream(d) } -> std::same_as<stream_token>;
};

}  // namespace ferry::inline v0
