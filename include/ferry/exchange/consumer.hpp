// ferry: the types that can import tensors.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>
#include <ferry/config.hpp>
#include <ferry/exchange/detail/adapter.hpp>
#include <ferry/exchange/request.hpp>

namespace FERRY_NAMESPACE {

/// A result type of from_dlpack<T>: managed_tensor, or an array with `adopt`. T need not be `viewable`.
template <class T>
concept consumer = std::same_as<T, managed_tensor> || adopting<T>;

/// managed_tensor, or an array type that supports short vectors (lanes ≠ 1) as elements:
/// array_traits<T>::vector_elements is true. Importing a tensor of such elements as an array type without this support
/// fails with errc::dtype (R21).
template <class T>
concept accepts_vectors = std::same_as<T, managed_tensor> || requires { requires array_traits<T>::vector_elements; };

/// managed_tensor, or an array type that supports sub-byte elements that occupy one byte each:
/// array_traits<T>::padded_elements is true. Importing a tensor of such elements as an array type without this support
/// copies it and packs the elements (R13).
template <class T>
concept accepts_padded = std::same_as<T, managed_tensor> || requires { requires array_traits<T>::padded_elements; };

namespace detail {

/// `consumer`, or an array whose `adopt` is invalid; the messages of `is_sound` state the reason.
template <class T>
concept may_import = consumer<T> || declares_adopt<T> || closed<T>;

/// Returns whether T is a consumer whose adapter is valid; see `is_adapted`.
template <class T>
consteval bool is_consumer() {
    if constexpr (consumer<T> || declares_adopt<T>) return is_sound<T>();
    else
        static_assert(consumer<T>,
                      "ferry: this type cannot import a tensor: add static T adopt(ferry::managed_tensor) to "
                      "ferry::array_traits<T>");
    return false;
}

/// The elements that a consumer accepts; see `accepts_vectors` and `accepts_padded`.
struct accepted_elements {
    bool vectors, padded;
};
template <class Consumer>
inline constexpr accepted_elements accepted_by{accepts_vectors<Consumer>, accepts_padded<Consumer>};

[[nodiscard]] FERRY_COLD inline bool report_lanes(data_type type, reporter r) {
    return report(r, errc::dtype,
                  message{"dtype "} << type << " has " << unsigned{type.lanes}
                                    << " lanes, expected 1, because this array type has no vector elements (R21): view "
                                       "the data as uint8 in the producer");
}
/// Fails with errc::dtype for short vectors, unless the consumer supports them (R21).
[[nodiscard]] inline bool check_lanes(tensor_view const& v, accepted_elements accepted, reporter r) {
    return accepted.vectors || v.dtype().lanes == 1 || report_lanes(v.dtype(), r);
}

/// Passes a tensor to its consumer. If `adopt` has a second parameter, also passes `ready`, the stream on which the
/// data is ready. Returns the consumer, or the result that `adopt` returned.
template <consumer Consumer>
[[nodiscard]] auto adopt(managed_tensor&& tensor, [[maybe_unused]] stream_token ready) {
    if constexpr (std::same_as<Consumer, managed_tensor>) return std::move(tensor);
    else if constexpr (adopts_with_stream<Consumer>) return array_traits<Consumer>::adopt(std::move(tensor), ready);
    else return array_traits<Consumer>::adopt(std::move(tensor));
}

#if FERRY_HAS_EXCEPTIONS
/// Passes a tensor to its consumer, and throws the error of a result that `adopt` returned.
template <consumer Consumer>
[[nodiscard]] Consumer consume(managed_tensor&& tensor, stream_token ready) {
    if constexpr (is_result<decltype(adopt<Consumer>(std::move(tensor), ready))>)
        return adopt<Consumer>(std::move(tensor), ready).value();
    else return adopt<Consumer>(std::move(tensor), ready);
}
#endif

/// Returns the request with the stream on which the consumer will use the tensor: the stream of the request, else
/// array_traits<T>::current_stream. Also checks the adapter of the consumer, because every import calls this function.
/// \return     request with a stream, if the consumer has one
template <class Consumer>
[[nodiscard]] request with_stream(request req, [[maybe_unused]] device dev) {
    static_assert(is_consumer<Consumer>());
    if constexpr (has_current_stream<Consumer>) {
        device const target = req.device.value_or(dev);
        if (req.stream.is_none() && uses_streams(target.type))
            req.stream = array_traits<Consumer>::current_stream(target);
    }
    return req;
}

}  // namespace detail
}  // namespace FERRY_NAMESPACE
