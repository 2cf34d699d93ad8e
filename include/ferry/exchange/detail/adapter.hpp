// ferry: compile-time checks of an adapter, with an error message for each. The first use of an adapter checks all of
// its members.
#pragma once

#include <ferry/exchange/array_traits.hpp>

namespace FERRY_NAMESPACE::detail {

template <class T>
concept specialised = requires { sizeof(array_traits<T>); };

/// array_traits<T> is specialised, or T has a member ferry_view; `is_adapted` checks whether it is valid. Other types
/// do not satisfy the constraints of exports.
template <class T>
concept has_adapter = specialised<std::remove_cvref_t<T>> || requires(std::remove_cvref_t<T>& a) { a.ferry_view(); } ||
    requires(std::remove_cvref_t<T> const& a) { a.ferry_view(); };

/// A type that exports do not support, and to which an adapter can be added.
template <class T>
concept is_unknown =
    !has_adapter<T> && !has_own_exports<std::remove_cvref_t<T>> && !is_device_view<std::remove_cvref_t<T>>;

/// Detects which names array_traits<T> declares: such a name is ambiguous in `with_every_name`. Also detects overload
/// sets, templates and private members, whose address cannot be taken.
struct every_name {
    int view, share, adopt, allocate, ready_on, current_stream, device, owns, vector_elements, padded_elements,
        lend_read_only;
};
template <class T>
struct with_every_name : array_traits<T>, every_name {};
template <class T>
concept extensible = specialised<T> && !std::is_final_v<array_traits<T>>;
template <class T>
concept closed = specialised<T> && !extensible<T>;

template <class T>
concept declares_view = extensible<T> && !requires { &with_every_name<T>::view; };
template <class T>
concept declares_share = extensible<T> && !requires { &with_every_name<T>::share; };
template <class T>
concept declares_adopt = extensible<T> && !requires { &with_every_name<T>::adopt; };
template <class T>
concept declares_allocate = extensible<T> && !requires { &with_every_name<T>::allocate; };
template <class T>
concept declares_ready_on = extensible<T> && !requires { &with_every_name<T>::ready_on; };
template <class T>
concept declares_current_stream = extensible<T> && !requires { &with_every_name<T>::current_stream; };
template <class T>
concept declares_device = extensible<T> && !requires { &with_every_name<T>::device; };
template <class T>
concept declares_owns = extensible<T> && !requires { &with_every_name<T>::owns; };

template <class T>
concept declares_vector_elements = extensible<T> && !requires { &with_every_name<T>::vector_elements; };
template <class T>
concept declares_padded_elements = extensible<T> && !requires { &with_every_name<T>::padded_elements; };

template <class T>
concept declares_lend_read_only = extensible<T> && !requires { &with_every_name<T>::lend_read_only; };

/// `vector_elements` is a public constant of type bool. Its value may be true or false.
template <class T>
concept has_vector_elements = requires {
    requires std::is_same_v<decltype(array_traits<T>::vector_elements), bool const>;
    typename std::bool_constant<array_traits<T>::vector_elements>;
};
/// The same for `padded_elements`.
template <class T>
concept has_padded_elements = requires {
    requires std::is_same_v<decltype(array_traits<T>::padded_elements), bool const>;
    typename std::bool_constant<array_traits<T>::padded_elements>;
};

/// The same for `lend_read_only`.
template <class T>
concept has_lend_read_only = requires {
    requires std::is_same_v<decltype(array_traits<T>::lend_read_only), bool const>;
    typename std::bool_constant<array_traits<T>::lend_read_only>;
};

/// `owns` is a public constant of type bool, or a public function bool(T const&). Its value may be true or false.
template <class T>
concept has_owns = has_run_time_ownership<T> || requires {
    requires std::is_same_v<decltype(array_traits<T>::owns), bool const>;
    typename std::bool_constant<array_traits<T>::owns>;
};

/// `view` is a non-static member function.
template <class T>
concept view_is_no_static =
    requires(array_traits<T>& traits, T& a) { traits.view(a); } && !requires(T& a) { array_traits<T>::view(a); };
template <class T>
concept view_takes_const =
    requires(T const& a) { array_traits<T>::view(a); } || requires(T const& a) { a.ferry_view(); };

/// Returns whether `device` is valid or not declared.
template <class T>
consteval bool is_device_sound() {
    constexpr bool device = !declares_device<T> || has_device<T>;
    static_assert(
        device,
        "ferry: array_traits<T>::device must be public, static ferry::device device(T const&): take the array by const reference, and return a ferry::device, not a pair of integers");
    return device;
}

/// Returns whether every optional member that array_traits<T> declares is valid. `is_adapted` checks `view`.
template <class T>
consteval bool is_sound() {
    static_assert(!closed<T>,
                  "ferry: array_traits<T> must not be final: ferry derives from it to detect the names that it declares");
    constexpr bool share = !declares_share<T> || !viewable<T> || shareable<T>;
    static_assert(
        share,
        "ferry: array_traits<T>::share must be public, static Owner share(T const&): take the array by const reference, and return by value an owner with a view, such as another T");
    constexpr bool adopt =
        !declares_adopt<T> || (adopting<T> && (!declares_stream_of_adopt<T> || adopts_with_stream<T>));
    static_assert(
        adopt,
        "ferry: array_traits<T>::adopt must be public, static T adopt(ferry::managed_tensor) or static T adopt(ferry::managed_tensor, ferry::stream_token): take the tensor by value or as an rvalue, because other references cannot take ownership; take the stream on which the data is ready as a stream_token, not as a handle; return T by value");
    constexpr bool described = !declares_allocate<T> || viewable<T>;
    static_assert(
        described,
        "ferry: array_traits<T>::allocate needs array_traits<T>::view, which describes the new memory: add static tensor_view view(T&)");
    constexpr bool allocate = !declares_allocate<T> || !described ||
                              (allocates<T> && (!declares_stream_of_allocate<T> || allocates_with_stream<T>));
    static_assert(
        allocate,
        "ferry: array_traits<T>::allocate must be public, static T allocate(ferry::data_type, ferry::shape_view, ferry::device), with its parameters in this order and optionally a ferry::stream_token, and return T by value");
    constexpr bool ready_on = !declares_ready_on<T> || has_ready_on<T> || has_ready_event<T>;
    static_assert(
        ready_on,
        "ferry: array_traits<T>::ready_on must be public, static ferry::stream_token ready_on(T const&): take the array by const reference, and return a stream_token, not a handle; or return an event by value, a class with wait_for_event(ferry::device, ferry::stream_token) const");
    constexpr bool current_stream = !declares_current_stream<T> || has_current_stream<T>;
    static_assert(
        current_stream,
        "ferry: array_traits<T>::current_stream must be public, static ferry::stream_token current_stream(ferry::device): take a device, not an id, and return a stream_token, not a handle");
    constexpr bool owns = !declares_owns<T> || has_owns<T>;
    static_assert(
        owns,
        "ferry: array_traits<T>::owns must be public, static constexpr bool owns or static bool owns(T const&): true if an rvalue keeps its elements alive, false if they belong to another object");
    constexpr bool elements = (!declares_vector_elements<T> || has_vector_elements<T>)&&(
        !declares_padded_elements<T> || has_padded_elements<T>);
    static_assert(
        elements,
        "ferry: array_traits<T>::vector_elements and padded_elements must be public, static constexpr bool: true if imports support such elements");
    constexpr bool lend = !declares_lend_read_only<T> || has_lend_read_only<T>;
    static_assert(
        lend,
        "ferry: array_traits<T>::lend_read_only must be public, static constexpr bool: true if read-only arrays are shared with legacy consumers");
    return lend && share && adopt && described && allocate && ready_on && current_stream && is_device_sound<T>() &&
           owns && elements;
}

/// Returns whether an array has a view and its adapter is valid.
template <class Array>
consteval bool is_adapted() {
    using T = std::remove_cv_t<Array>;
    if constexpr (closed<T>) {
        return is_sound<T>();
    } else if constexpr (declares_view<T> && !has_traits_view<T>) {
        static_assert(
            !view_takes_value<T>,
            "ferry: array_traits<T>::view takes the array by value, and the view would outlive that copy: take it by reference, static tensor_view view(T&) and view(T const&), or inplace_view<N> instead of tensor_view");
        static_assert(!view_is_no_static<T>,
                      "ferry: array_traits<T>::view is called without an object: make it static");
        static_assert(
            view_takes_value<T> || view_is_no_static<T>,
            "ferry: array_traits<T>::view must take the array by reference and return ferry::tensor_view or ferry::inplace_view<N>: public, static tensor_view view(T&) and view(T const&)");
    } else if constexpr (viewable<Array>) {
        return is_sound<T>();
    } else if constexpr (viewable<T>) {
        static_assert(
            view_takes_const<T>,
            "ferry: the adapter supports only mutable arrays: add view(T const&), which returns a view of a T const*, so that the tensor is read-only");
        static_assert(!view_takes_const<T>, "ferry: array_traits<T>::view(T const&) must return ferry::tensor_view or ferry::inplace_view<N>");
    } else if constexpr (specialised<T>) {
        static_assert(
            viewable<Array>,
            "ferry: array_traits<T> has no static member function view(T&): add it, public, returning ferry::tensor_view or ferry::inplace_view<N>");
    } else {
        static_assert(
            specialised<T>,
            "ferry: unknown array type: specialise ferry::array_traits<T> with static tensor_view view(T&), or give T a member ferry_view()");
    }
    return false;
}

}  // namespace FERRY_NAMESPACE::detail
