// ferry: imports from any producer.
#pragma once

#include <ferry/exchange/detail/import.hpp>
#include <ferry/exchange/to_dlpack.hpp>

namespace FERRY_NAMESPACE {

/// Validates a foreign tensor and takes ownership of it (R2, R3, R16–R32).
///
/// Reads metadata only, not the data. Does not synchronise: device data is ready on the stream that was passed to the
/// producer. Thread-safe.
///
/// \param raw    struct; owned by the result on success; on failure its deleter has run exactly once. For a struct of
///               another major version, only the version and the deleter are accessed (R2).
/// \return       tensor; `try_from_dlpack` returns the tensor or the error
/// \throws error  errc::null_struct; errors of `validate`: errc::version, device, dtype, rank, shape, overflow or
///                null_data
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] inline managed_tensor from_dlpack(DLManagedTensorVersioned* raw,
                                                std::source_location where = std::source_location::current()) {
    return detail::take(raw, {"ferry::from_dlpack", where});
}
#endif
[[nodiscard]] inline result<managed_tensor> try_from_dlpack(
    DLManagedTensorVersioned* raw, std::source_location where = std::source_location::current()) {
    return detail::attempt<managed_tensor>("ferry::from_dlpack", where,
                                           [=](detail::reporter r) { return detail::take(raw, r); });
}

/// Validates a legacy tensor and takes ownership of it (R3, R16–R32).
///
/// Makes one allocation. Does not synchronise.
///
/// \param raw      struct; owned by the result on success; on failure its deleter has run exactly once
/// \param assumed  flags of the data, which the struct does not contain; pass flags::none only if the documentation of
///                 the producer states that the data may be written (R15)
/// \return         tensor; `try_from_dlpack` returns the tensor or the error, which is errc::out_of_memory for
///                 std::bad_alloc
/// \throws error           errc::null_struct; errors of `validate`: errc::device, dtype, rank, shape, overflow or
///                         null_data
/// \throws std::bad_alloc  when the allocation fails
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] inline managed_tensor from_dlpack(DLManagedTensor* raw, flags assumed = flags::read_only,
                                                std::source_location where = std::source_location::current()) {
    return detail::take(raw, {"ferry::from_dlpack", where}, assumed);
}
#endif
[[nodiscard]] inline result<managed_tensor> try_from_dlpack(
    DLManagedTensor* raw, flags assumed = flags::read_only,
    std::source_location where = std::source_location::current()) {
    return detail::attempt<managed_tensor>("ferry::from_dlpack", where,
                                           [=](detail::reporter r) { return detail::take(raw, r, assumed); });
}

/// Imports a managed_tensor. Its producer has already exported it and can no longer order streams, so the caller passes
/// the stream on which the data is ready.
///
/// \tparam Consumer  managed_tensor, or an array type with array_traits<T>::adopt
/// \param tensor    tensor; consumed on success, unchanged on failure before `adopt`
/// \param req       request
/// \param b         back end; required for copies of device memory, and for waits
/// \param ready_on  stream on which the data is ready; ferry::already_ready if no work is pending; not needed for
///                  devices of type cpu
/// \return          the tensor or its copy, as the consumer's type; `try_from_dlpack` returns the consumer or the error
/// \throws error           errors of to_dlpack for a managed_tensor; errc::dtype for short vectors (`accepts_vectors`);
///                         errors of `adopt`
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
template <class Consumer, class BackEnd>
    requires(detail::may_import<Consumer> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] Consumer from_dlpack(managed_tensor&& tensor, request const& req, BackEnd&& b, stream_token ready_on,
                                   std::source_location where = std::source_location::current()) {
    return detail::import_as<Consumer>(std::move(tensor), req, b, ready_on, where);
}
#endif
template <class Consumer, class BackEnd>
    requires(detail::may_import<Consumer> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] result<Consumer> try_from_dlpack(managed_tensor&& tensor, request const& req, BackEnd&& b,
                                               stream_token ready_on,
                                               std::source_location where = std::source_location::current()) {
    return detail::try_import_as<Consumer>(std::move(tensor), req, b, ready_on, where);
}

/// Imports a tensor from any producer (R43, R48, R53, R56–R58).
///
/// Passes the request to the producer, validates the tensor, performs the copy and the waits that the producer did not
/// perform, and calls array_traits<Consumer>::adopt. The tensor has the flag is_copied if the producer or ferry copied
/// it. An import with a stream in the request does not block the host unless the exporter or the back end's `copy`
/// does. If the requested device is the CPU, the data is complete on return. Exceptions of an exporter and of the
/// members of array_traits<T> propagate.
///
/// \tparam Consumer  managed_tensor, or an array type with array_traits<T>::adopt
/// \param from   producer. An array is shared as an lvalue and moved as an rvalue, as in to_dlpack. A raw struct is
///               consumed on success and on failure; its deleter is called exactly once. If the memory of a
///               managed_tensor is not of type cpu, use the overload with `ready_on`. For a raw struct with such
///               memory, pass that overload the result of from_dlpack(raw).
/// \param req    request
/// \param b      back end; required for copies of device memory, and for waits
/// \return       the tensor or its copy, as the consumer's type; `try_from_dlpack` returns the consumer or the error,
///               which is errc::out_of_memory for std::bad_alloc
/// \throws error           errc::dtype for short vectors (`accepts_vectors`); errors of from_dlpack for a raw struct,
///                         and of to_dlpack
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
template <class Consumer, class Producer, class BackEnd = host_back_end const&>
    requires(detail::may_import<Consumer> && detail::may_export<Producer> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] Consumer from_dlpack(Producer&& from, request const& req, BackEnd&& b = host_only,
                                   call_site where = std::source_location::current()) {
    return detail::import_as<Consumer>(std::forward<Producer>(from), req, b, {}, where.location);
}
#endif
template <class Consumer, class Producer, class BackEnd = host_back_end const&>
    requires(detail::may_import<Consumer> && detail::may_export<Producer> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] result<Consumer> try_from_dlpack(Producer&& from, request const& req, BackEnd&& b = host_only,
                                               call_site where = std::source_location::current()) {
    return detail::try_import_as<Consumer>(std::forward<Producer>(from), req, b, {}, where.location);
}

/// Imports a tensor from any producer, with the default request: shares on the device of the data if possible.
///
/// Copies only arrays that cannot be shared, and arrays with padded elements that the consumer does not support (R13,
/// `accepts_padded`). Other producers are imported with ferry::share_only, which never copies; to import such elements
/// from them, pass a request.
///
/// \tparam Consumer  managed_tensor, or an array type with array_traits<T>::adopt
/// \param from   producer; ownership as in the overload with a request
/// \return       the tensor, as the consumer's type; `try_from_dlpack` returns the consumer or the error
/// \throws error           errors of the overload with a request
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
template <class Consumer, class Producer>
    requires(detail::may_import<Consumer> && detail::may_export<Producer>)
[[nodiscard]] Consumer from_dlpack(Producer&& from, call_site where = std::source_location::current()) {
    return detail::import_as<Consumer>(std::forward<Producer>(from), request{},
                                       detail::default_back_end<Producer>(), {}, where.location);
}
#endif
template <class Consumer, class Producer>
    requires(detail::may_import<Consumer> && detail::may_export<Producer>)
[[nodiscard]] result<Consumer> try_from_dlpack(Producer&& from, call_site where = std::source_location::current()) {
    return detail::try_import_as<Consumer>(std::forward<Producer>(from), request{},
                                           detail::default_back_end<Producer>(), {}, where.location);
}

// clang-format off
FERRY_DELETED_BOTH(from_dlpack, try_from_dlpack, (Tensor&&, request const& = {}, Rest&&...), "a managed_tensor has one owner and cannot be shared: pass std::move(tensor) of a tensor that is not const",
    template <class Consumer, class Tensor, class... Rest>
        requires(std::same_as<std::remove_cvref_t<Tensor>, managed_tensor> && !producer<Tensor>));
FERRY_DELETED_BOTH(from_dlpack, try_from_dlpack, (From&&, request const& = {}, Rest&&...), "this type cannot import a tensor: add static T adopt(ferry::managed_tensor) to ferry::array_traits<T>",
    template <class Other, class From, class... Rest>
        requires(!detail::may_import<Other> && detail::may_export<From>));
FERRY_DELETED_BOTH(from_dlpack, try_from_dlpack, (View&&, Rest&&...), "a view owns no memory that a tensor could share: import its owner, or a copy: from_dlpack<T>(to_dlpack(view, {.copy = ferry::copy_policy::always}))",
    template <class Consumer, class View, class... Rest>
        requires(std::derived_from<std::remove_cvref_t<View>, tensor_view> && !detail::may_export<View>));
FERRY_DELETED_BOTH(from_dlpack, try_from_dlpack, (Array&&, request const& = {}, Rest&&...), "a const array cannot be moved, and its elements would be copied implicitly: move a non-const array, or share this one by passing it without std::move",
    template <class Consumer, class Array, class... Rest> requires detail::const_array<Array>);
FERRY_DELETED_BOTH(from_dlpack, try_from_dlpack, (Other&&, Rest&&...), "unknown array type: specialise ferry::array_traits<T> with static tensor_view view(T&), or give T a member ferry_view() or ferry_export()",
    template <class Consumer, class Other, class... Rest>
        requires(!detail::may_export<Other> && !detail::const_array<Other> &&
                 !std::same_as<std::remove_cvref_t<Other>, managed_tensor> &&
                 !std::derived_from<std::remove_cvref_t<Other>, tensor_view>));
FERRY_DELETED_BOTH(from_dlpack, try_from_dlpack, (From&&, request const&, Other&&, Rest&&...), "the argument is not a back end: it must satisfy ferry::back_end of ferry/space/back_end.hpp",
    template <class Consumer, class From, class Other, class... Rest>
        requires(detail::may_import<Consumer> && detail::may_export<From> &&
                 !back_end<std::remove_reference_t<Other>>));
FERRY_DELETED_BOTH(from_dlpack, try_from_dlpack, (From&&, request const&, BackEnd&&, Ready&&, Rest&&...), "only a managed_tensor or a view needs the stream: an array states it by array_traits<T>::ready_on; for a raw struct, pass from_dlpack(raw) as the first argument",
    template <class Consumer, class From, class BackEnd, class Ready, class... Rest>
        requires(detail::may_import<Consumer> && detail::may_export<From> &&
                 !std::same_as<std::remove_cvref_t<From>, managed_tensor> &&
                 back_end<std::remove_reference_t<BackEnd>> && std::same_as<std::remove_cvref_t<Ready>, stream_token>));
FERRY_DELETED_REQUEST(from_dlpack, try_from_dlpack, (From&&, detail::request_of_wrong_device, Rest&&...), "the device of a request is not a number: pass ferry::cpu, or ferry::device{ferry::device_type::cuda, id}",
    template <class Consumer, class From, class... Rest>);
FERRY_DELETED_REQUEST(from_dlpack, try_from_dlpack, (From&&, detail::request_of_wrong_copy, Rest&&...), "the copy of a request is not a bool: pass copy_policy::always, copy_policy::never or copy_policy::if_needed",
    template <class Consumer, class From, class... Rest>);
FERRY_DELETED_BRACED(from_dlpack, try_from_dlpack, (From&&, detail::wrong_request, Rest&&...), "streams are neither integers nor pointers: pass stream_token::cuda(the cudaStream_t), stream_token::from_cuda_handle(a void*), stream_token::cuda_legacy_default(), stream_token::rocm(the hipStream_t), or {} for no stream",
    template <class Consumer, class From, class... Rest>);
// clang-format on

}  // namespace FERRY_NAMESPACE
