// ferry: exports of arrays and tensors.
#pragma once

#include <ferry/exchange/detail/export.hpp>
#include <ferry/tensor/make_managed.hpp>

namespace FERRY_NAMESPACE {

/// Exports an array: shares its memory if the request and the array allow it, otherwise copies it or fails (R53).
///
/// An rvalue is moved into the tensor, in one allocation (D1). An lvalue is shared by array_traits<T>::share, any
/// number of times (R59). An rvalue that does not own its elements (D13, `array_traits<T>::owns`) and an lvalue without
/// `share` are copied; with copy_policy::never, the export fails with errc::not_shareable. `borrow` exports such arrays
/// without a copy. A shared tensor is read-only if the view of the array, or of the result of `share`, is read-only
/// (R11). A copy is writable and has the flag is_copied (R12). It keeps the order of a dense source, for example
/// column-major. It is row-major if the source has gaps, or repeated, packed or reversed elements, or if the request
/// has layout::contiguous. array_traits<T>::allocate determines the order of the arrays that it returns.
///
/// An export with a stream in the request orders that stream after the stream or event that array_traits<T>::ready_on
/// returns, and does not block the host unless the back end's `copy` does (R43). The data is complete on return if the
/// requested device is the CPU. It is also complete if the request has no stream, unless the requested memory is CUDA
/// or ROCm device memory (R48, R49). The deleter of an incomplete copy waits for the copy if the back end has `mark`
/// (`marking_back_end`). Exceptions of the members of array_traits<T> propagate.
///
/// \param array  array; an rvalue is moved last, and is unchanged if the export fails, unless its adapter or a wait
///               fails after the move. A copy of device memory that is queued on a stream keeps its source alive
///               (R50), unless the source is an array that does not own its memory, or an lvalue without `share`. The
///               memory of such a source must stay valid until the work on the stream is complete. Without a stream in
///               the request, copies to CUDA or ROCm device memory are queued on the default stream (R44), but copies
///               of such sources are complete on return. A copy is also complete on return if the elements of a moved
///               array do not keep their address.
/// \param req    request
/// \param b      back end; required for copies of device memory, and for waits
/// \return       tensor that owns the array, another owner of its memory, or a copy; `try_to_dlpack` returns the tensor
///               or the error, which is errc::out_of_memory for std::bad_alloc
/// \throws error           errc::copy_needed, not_shareable, stream, device or no_backend; errc::argument when a move
///                         would slice the array, or the elements are in the object that was moved from; errors of
///                         make_managed and of the back end
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
template <class Array, class BackEnd = host_back_end const&>
    requires(detail::exportable<Array> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] managed_tensor to_dlpack(Array&& array, request const& req, BackEnd&& b = host_only,
                                       std::source_location where = std::source_location::current()) {
    return detail::export_tensor(std::forward<Array>(array), req, b, {"ferry::to_dlpack", where});
}
#endif
template <class Array, class BackEnd = host_back_end const&>
    requires(detail::exportable<Array> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] result<managed_tensor> try_to_dlpack(Array&& array, request const& req, BackEnd&& b = host_only,
                                                   std::source_location where = std::source_location::current()) {
    return detail::attempt<managed_tensor>("ferry::to_dlpack", where, [&](detail::reporter r) {
        return detail::export_tensor(std::forward<Array>(array), req, b, r);
    });
}

/// Exports an array without a copy, on its device.
///
/// \param array  array; an rvalue must own its elements, and an lvalue requires array_traits<T>::share
/// \return       tensor that owns the array, or another owner of its memory; `try_to_dlpack` returns the tensor or the
///               error
/// \throws error           errors of the overload with a request
/// \throws std::bad_alloc  when the allocation fails
#if FERRY_HAS_EXCEPTIONS
template <class Array>
    requires(detail::exportable<Array> && !detail::without_share<Array> && !detail::without_elements<Array>)
[[nodiscard]] managed_tensor to_dlpack(Array&& array, call_site where = std::source_location::current()) {
    return detail::share_tensor(std::forward<Array>(array), {"ferry::to_dlpack", where.location});
}
#endif
template <class Array>
    requires(detail::exportable<Array> && !detail::without_share<Array> && !detail::without_elements<Array>)
[[nodiscard]] result<managed_tensor> try_to_dlpack(Array&& array, call_site where = std::source_location::current()) {
    return detail::attempt<managed_tensor>("ferry::to_dlpack", where.location, [&](detail::reporter r) {
        return detail::share_tensor(std::forward<Array>(array), r);
    });
}

/// Exports a tensor, or copies one that the caller keeps, or a view.
///
/// An rvalue is returned as it is, with its flags and version (R4, R12), if the request allows it; in a new struct that
/// owns it if the request names another device type for the same memory (R39), or if the strides are NULL although the
/// version requires them (R24). An lvalue and a view, which has no owner, are copied (R53). Copies, their order and the
/// synchronisation are those of the overload for arrays.
///
/// \param tensor    managed_tensor, or view. An rvalue is consumed on success, and unchanged on failure. With a stream
///                  in the request, device memory that the caller keeps must stay valid until the work on the stream
///                  is complete; without one, its copy is complete on return.
/// \param req       request
/// \param b         back end; required for copies of device memory, and for waits
/// \param ready_on  stream on which the data is ready; required for a wait or a copy, except for devices of type cpu
/// \return          the tensor, a struct that owns it, or a copy; `try_to_dlpack` returns the tensor or the error
/// \throws error           errc::consumed when `tensor` is empty; errc::not_shareable for copy_policy::never, if it is
///                         an lvalue or a view; errors of the overload for arrays
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
template <detail::bare_tensor Tensor, class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor to_dlpack(Tensor&& tensor, request const& req, BackEnd&& b = host_only,
                                       stream_token ready_on = {},
                                       std::source_location where = std::source_location::current()) {
    return detail::export_tensor(std::forward<Tensor>(tensor), req, b, ready_on, {"ferry::to_dlpack", where});
}
#endif
template <detail::bare_tensor Tensor, class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] result<managed_tensor> try_to_dlpack(Tensor&& tensor, request const& req, BackEnd&& b = host_only,
                                                   stream_token ready_on = {},
                                                   std::source_location where = std::source_location::current()) {
    return detail::attempt<managed_tensor>("ferry::to_dlpack", where, [&](detail::reporter r) {
        return detail::export_tensor(std::forward<Tensor>(tensor), req, b, ready_on, r);
    });
}

// clang-format off
FERRY_DELETED_BOTH(to_dlpack, try_to_dlpack, (managed_tensor const&), "a managed_tensor has one owner and cannot be shared: pass std::move(tensor) and a request, or request {.copy = ferry::copy_policy::always}",
    inline);
FERRY_DELETED_BOTH(to_dlpack, try_to_dlpack, (tensor_view const&), "a view owns no memory that a tensor could share: export its owner, call borrow(), or request {.copy = ferry::copy_policy::always}",
    inline);
FERRY_DELETED_BOTH(to_dlpack, try_to_dlpack, (Other&&, Rest&&...), "unknown array type: specialise ferry::array_traits<T> with static tensor_view view(T&), or give T a member ferry_view()",
    template <class Other, class... Rest> requires detail::is_unknown<Other>);
FERRY_DELETED_BOTH(to_dlpack, try_to_dlpack, (Other&&, request const&), "unknown array type: specialise ferry::array_traits<T> with static tensor_view view(T&), or give T a member ferry_view()",
    template <class Other> requires detail::is_unknown<Other>);
FERRY_DELETED_BOTH(to_dlpack, try_to_dlpack, (Array&&, call_site = std::source_location::current()), "to_dlpack(lvalue) needs an owner: pass std::move(array), call borrow(), add array_traits<T>::share, or request {.copy = ferry::copy_policy::always}",
    template <class Array> requires(detail::without_share<Array> && !detail::without_elements<Array>));
FERRY_DELETED_BOTH(to_dlpack, try_to_dlpack, (Array&&, call_site = std::source_location::current()), "the elements of this array belong to another object, which the tensor may outlive: export their owner, call borrow(), or request {.copy = ferry::copy_policy::always}",
    template <class Array> requires(detail::exportable<Array> && detail::without_elements<Array>));
FERRY_DELETED_BOTH(to_dlpack, try_to_dlpack, (Array&&, request const& = {}, Rest&&...), "a const array cannot be moved, and its elements would be copied implicitly: move a non-const array, or share this one by passing it without std::move",
    template <class Array, class... Rest> requires(detail::has_adapter<Array> && detail::const_rvalue<Array>));
FERRY_DELETED_BOTH(to_dlpack, try_to_dlpack, (View&&, request const& = {}), "a view with access_from::device does not store its device: export the tensor from which it was made",
    template <class View> requires detail::is_device_view<std::remove_cvref_t<View>>);
FERRY_DELETED_BOTH(to_dlpack, try_to_dlpack, (From&&, request const&, Other&&, Rest&&...), "the argument is not a back end: it must satisfy ferry::back_end of ferry/space/back_end.hpp",
    template <class From, class Other, class... Rest> requires(!back_end<std::remove_reference_t<Other>>));
FERRY_DELETED_BOTH(to_dlpack, try_to_dlpack, (Array&&, request const&, BackEnd&&, Ready&&, Rest&&...), "only a managed_tensor or a view needs the stream: an array states it by array_traits<T>::ready_on",
    template <class Array, class BackEnd, class Ready, class... Rest>
        requires(detail::exportable<Array> && back_end<std::remove_reference_t<BackEnd>> &&
                 std::same_as<std::remove_cvref_t<Ready>, stream_token>));
FERRY_DELETED_REQUEST(to_dlpack, try_to_dlpack, (From&&, detail::request_of_wrong_device, Rest&&...), "the device of a request is not a number: pass ferry::cpu, or ferry::device{ferry::device_type::cuda, id}",
    template <class From, class... Rest>);
FERRY_DELETED_REQUEST(to_dlpack, try_to_dlpack, (From&&, detail::request_of_wrong_copy, Rest&&...), "the copy of a request is not a bool: pass copy_policy::always, copy_policy::never or copy_policy::if_needed",
    template <class From, class... Rest>);
FERRY_DELETED_BRACED(to_dlpack, try_to_dlpack, (From&&, detail::wrong_request, Rest&&...), "streams are neither integers nor pointers: pass stream_token::cuda(the cudaStream_t), stream_token::from_cuda_handle(a void*), stream_token::cuda_legacy_default(), stream_token::rocm(the hipStream_t), or {} for no stream",
    template <class From, class... Rest>);
// clang-format on

}  // namespace FERRY_NAMESPACE
