// ferry: what can be exported, and how an array library says so.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/fwd.hpp>
#include <ferry/tensor/view.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace ferry {

/// The customisation point of an array library: specialise it for the array type. Only `view` is needed, for T& and for
/// T const& (which yields a read-only tensor); each of the others adds an ability of its own:
///
/// - `tensor_view view(T&)`, `tensor_view view(T const&)`: where the elements are. Borrows extents and strides from the array.
///   Throws where one tensor on one device cannot say it: sharded, sparse (R41).
/// - `Owner share(T const&)`: another handle to the same memory, so that an lvalue can be exported.
/// - `T adopt(managed_tensor)`: takes over a tensor without a copy (exchange/consumer.hpp).
/// - `T allocate(data_type, shape_view, device)`: fresh memory of the library's own for copies, on that device, which any
///   stream may write at once; throws where it has none.
/// - `stream_token ready_on(T const&)`: the stream on which pending work on the array runs, or already_ready.
/// - `stream_token current_stream(device)`: the stream on which this thread will use what it imports.
///
/// A type without a specialisation may have a member `ferry_view()` instead of `view`.
template <class Array>
struct array_traits;

/// array_traits<T>::view takes it. Not required: ownership.
template <class Array>
concept has_traits_view = requires(Array& a) {
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

/// A second handle to its memory can be made. Not required: that the handle has the array's type.
template <class Array>
concept shareable = viewable<Array> && requires(Array const& a) {
    { array_traits<std::remove_cv_t<Array>>::share(a) } -> viewable;
};

/// It says where its pending work runs. Not required on the host, where nothing is ever pending.
template <class Array>
concept tells_ready_on = requires(Array const& a) {
    { array_traits<std::remove_cv_t<Array>>::ready_on(a) } -> std::same_as<stream_token>;
};

/// It has fresh memory of its own for copies.
template <class Array>
concept allocates = viewable<Array> && requires(data_type t, shape_view s, device d) {
    { array_traits<std::remove_cv_t<Array>>::allocate(t, s, d) } -> std::same_as<std::remove_cv_t<Array>>;
};

/// It knows the stream that the calling thread works on.
template <class Array>
concept tells_current_stream = requires(device d) {
    { array_traits<std::remove_cv_t<Array>>::current_stream(d) } -> std::same_as<stream_token>;
};

/// A protocol of its own behind which a tensor is asked for by request, a Python object for instance:
/// `managed_tensor ferry_export(request const&)`. Not required: that it honours the request; from_dlpack makes up for it.
template <class P>
concept exporter = requires(P& p, request const& r) {
    { p.ferry_export(r) } -> std::same_as<managed_tensor>;
};

/// Whatever from_dlpack takes: an array, a tensor, a foreign struct, an exporter.
template <class P>
concept producer = viewable<std::remove_reference_t<P>> || exporter<std::remove_reference_t<P>> ||
                   std::same_as<std::remove_cvref_t<P>, managed_tensor> ||
                   std::same_as<std::remove_cvref_t<P>, DLManagedTensorVersioned*> ||
                   std::same_as<std::remove_cvref_t<P>, DLManagedTensor*>;

/// The tensor of an array: array_traits<T>::view, else its member `ferry_view`. Borrows.
struct view_of_t {
    template <has_traits_view Array>
    [[nodiscard]] constexpr tensor_view operator()(Array& a) const {
        return array_traits<std::remove_cv_t<Array>>::view(a);
    }
    template <has_member_view Array>
    [[nodiscard]] constexpr tensor_view operator()(Array& a) const {
        return a.ferry_view();
    }
};
inline constexpr view_of_t view_of{};

namespace detail {

template <class T>
concept specialised = requires { sizeof(array_traits<T>); };
template <class T>
concept names_view = requires { &array_traits<T>::view; } || requires(T& a) { array_traits<T>::view(a); };
template <class T>
concept view_takes_const = requires(T const& a) { array_traits<T>::view(a); } || requires(T const& a) { a.ferry_view(); };

/// Tells the author of an adapter what is missing, in a sentence. True when nothing is.
template <class Array>
consteval bool is_adapted() {
    using T = std::remove_cv_t<Array>;
    if constexpr (viewable<Array>) {
        return true;
    } else if constexpr (std::is_const_v<Array> && viewable<T> && !view_takes_const<T>) {
        static_assert(view_takes_const<T>, "ferry: the adapter only views mutable arrays: add view(T const&), which gives the view a T const* and so READ_ONLY");
    } else if constexpr (specialised<T> && names_view<T>) {
        static_assert(viewable<Array>, "ferry: array_traits<T>::view must take the array by reference and return ferry::tensor_view");
    } else if constexpr (specialised<T>) {
        static_assert(names_view<T>, "ferry: array_traits<T> has no static member function view(T&): add it, public, returning ferry::tensor_view");
    } else {
        static_assert(specialised<T>, "ferry: unknown array type: specialise ferry::array_traits<T> with static tensor_view view(T&), or give T a member ferry_view()");
    }
    return false;
}

}  // namespace detail
}  // namespace ferry
