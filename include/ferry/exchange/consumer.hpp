// ferry: what can be imported.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/array_traits.hpp>
#include <ferry/exchange/detail/adapter.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {

/// What from_dlpack<T> can return: a managed_tensor, or an array that adopts one.
template <class T>
concept consumer = std::same_as<T, managed_tensor> || adopting<T>;

/// The array takes short vectors (lanes ≠ 1) as elements: array_traits<T>::vector_elements is true. Others get an error
/// (R21).
template <class T>
concept accepts_vectors = std::same_as<T, managed_tensor> || requires { requires array_traits<T>::vector_elements; };

/// The array knows sub-byte elements that take a byte each: array_traits<T>::padded_elements is true. For the others
/// they are packed on import, which takes a copy (R13).
template <class T>
concept accepts_padded = std::same_as<T, managed_tensor> || requires { requires array_traits<T>::padded_elements; };

namespace detail {

/// Whether it is a consumer, and its adapter is sound; see `is_adapted`.
template <class T>
consteval bool is_consumer() {
    if constexpr (consumer<T> || declares_adopt<T>) return is_sound<T>();
    else
        static_assert(
            consumer<T>,
            "ferry: this type cannot take a tensor over: add static T adopt(ferry::managed_tensor) to ferry::array_traits<T>");
    return false;
}

/// R21: only a consumer that says so is given short vectors.
template <class Consumer>
void require_lanes([[maybe_unused]] tensor_view const& v, [[maybe_unused]] std::source_location where) {
    if constexpr (!accepts_vectors<Consumer>) {
        if (v.dtype().lanes != 1)  // mutant: r21_lanes
            fail(errc::dtype, "ferry::from_dlpack",
                 message{"dtype "}
                     << v.dtype() << " has " << unsigned{v.dtype().lanes}
                     << " lanes, and this consumer has no vector elements (R21): view it as uint8 at its producer",
                 where);
    }
}

/// Hands a tensor to its consumer, which is told that the data is ready on `ready` when it has a parameter for that.
/// The tensor is consumed whatever happens.
template <consumer Consumer>
[[nodiscard]] Consumer consume(managed_tensor&& tensor, [[maybe_unused]] stream_token ready,
                               std::source_location where) {
    require_lanes<Consumer>(tensor.view(), where);
    if constexpr (std::same_as<Consumer, managed_tensor>) return std::move(tensor);
    else if constexpr (adopts_with_stream<Consumer>)
        return array_traits<Consumer>::adopt(std::move(tensor), ready);  // mutant: r43_adopt_ready
    else return array_traits<Consumer>::adopt(std::move(tensor));
}

/// The stream on which the consumer will use a tensor: what the request says, else its own current one. Every import
/// comes by here first, so this is where a consumer that is almost right is told.
template <class Consumer>
[[nodiscard]] request with_stream(request req, [[maybe_unused]] device where) {
    static_assert(is_consumer<Consumer>());
    if constexpr (has_current_stream<Consumer>) {
        device const target = req.device.value_or(where);
        if (req.stream.is_none() && target.type != device_type::cpu)  // mutant: r48_current_stream_host
            req.stream = array_traits<Consumer>::current_stream(target);
    }
    return req;
}

}  // namespace detail
}  // namespace ferry::inline v0
