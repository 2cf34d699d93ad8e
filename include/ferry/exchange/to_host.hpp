// ferry: imports to the host that are complete on return.
#pragma once

#include <ferry/exchange/from_dlpack.hpp>

namespace FERRY_NAMESPACE {

/// Imports a tensor to the host: shares memory that the host can read, if the producer allows it, and otherwise copies
/// (R39, R48, R53).
///
/// The data is complete on return, regardless of the stream on which it was produced (D7). A copy has the flag
/// is_copied. Its memory comes from array_traits<T>::allocate if the producer is an array with this member, otherwise
/// from the back end; `destination{space, back_end}` allocates from another memory space.
///
/// \param from   producer: an array, an exporter or a foreign struct; ownership as in from_dlpack
/// \param b      back end; required for device memory
/// \return       tensor on the host, ready to read; `try_to_host` returns the tensor or the error
/// \throws error           errors of from_dlpack
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
template <class Producer, class BackEnd = host_back_end const&>
    requires(!std::same_as<std::remove_cvref_t<Producer>, managed_tensor> && detail::may_export<Producer> &&
             back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] managed_tensor to_host(Producer&& from, BackEnd&& b = host_only,
                                     std::source_location where = std::source_location::current()) {
    return from_dlpack<managed_tensor>(std::forward<Producer>(from), request{.device = cpu}, b, where);
}
#endif
template <class Producer, class BackEnd = host_back_end const&>
    requires(!std::same_as<std::remove_cvref_t<Producer>, managed_tensor> && detail::may_export<Producer> &&
             back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] result<managed_tensor> try_to_host(Producer&& from, BackEnd&& b = host_only,
                                                 std::source_location where = std::source_location::current()) {
    return try_from_dlpack<managed_tensor>(std::forward<Producer>(from), request{.device = cpu}, b, where);
}

/// Brings a tensor to the host: shares memory of an rvalue that the host can read, and copies other memory, and that of
/// an lvalue or a view. The data is complete on return.
///
/// \param tensor    managed_tensor, or view; an rvalue is consumed on success, and unchanged on failure
/// \param b         back end; required for device memory
/// \param ready_on  stream on which the data is ready; ferry::already_ready if no work is pending
/// \return          tensor on the host, ready to read; `try_to_host` returns the tensor or the error
/// \throws error           errors of to_dlpack
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
template <detail::bare_tensor Tensor, class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor to_host(Tensor&& tensor, BackEnd&& b, stream_token ready_on,
                                     std::source_location where = std::source_location::current()) {
    return to_dlpack(std::forward<Tensor>(tensor), request{.device = cpu}, b, ready_on, where);
}
#endif
template <detail::bare_tensor Tensor, class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] result<managed_tensor> try_to_host(Tensor&& tensor, BackEnd&& b, stream_token ready_on,
                                                 std::source_location where = std::source_location::current()) {
    return try_to_dlpack(std::forward<Tensor>(tensor), request{.device = cpu}, b, ready_on, where);
}

// clang-format off
FERRY_DELETED_BOTH(to_host, try_to_host, (Tensor&&, BackEnd&&), "pass the stream on which the tensor is ready, or ferry::already_ready if no work is pending",
    template <class Tensor, class BackEnd>
        requires(std::same_as<std::remove_cvref_t<Tensor>, managed_tensor> &&
                 back_end<std::remove_reference_t<BackEnd>>));
FERRY_DELETED_BOTH(to_host, try_to_host, (Other&&, Rest&&...), "unknown array type: specialise ferry::array_traits<T> with static tensor_view view(T&), or give T a member ferry_view() or ferry_export()",
    template <class Other, class... Rest>
        requires(!detail::has_own_exports<std::remove_cvref_t<Other>> && !detail::may_export<Other> &&
                 !detail::const_array<Other>));
FERRY_DELETED_BOTH(to_host, try_to_host, (Array&&, Rest&&...), "a const array cannot be moved, and its elements would be copied implicitly: move a non-const array, or share this one by passing it without std::move",
    template <class Array, class... Rest> requires detail::const_array<Array>);
FERRY_DELETED_BOTH(to_host, try_to_host, (From&&, Other&&, Rest&&...), "the argument is not a back end: it must satisfy ferry::back_end of ferry/space/back_end.hpp",
    template <class From, class Other, class... Rest>
        requires((detail::has_own_exports<std::remove_cvref_t<From>> || detail::may_export<From>) &&
                 !back_end<std::remove_reference_t<Other>> &&
                 !std::same_as<std::remove_cvref_t<Other>, std::source_location>));
FERRY_DELETED_BOTH(to_host, try_to_host, (From&&, BackEnd&&, Ready&&, Rest&&...), "only a managed_tensor or a view needs the stream: an array states it by array_traits<T>::ready_on; for a raw struct, pass from_dlpack(raw) as the first argument",
    template <class From, class BackEnd, class Ready, class... Rest>
        requires(detail::may_export<From> && !std::same_as<std::remove_cvref_t<From>, managed_tensor> &&
                 back_end<std::remove_reference_t<BackEnd>> && std::same_as<std::remove_cvref_t<Ready>, stream_token>));
FERRY_DELETED_BOTH(to_host, try_to_host, (tensor_view const&, BackEnd&&), "pass the stream on which the data is ready, or ferry::already_ready if no work is pending",
    template <class BackEnd> requires back_end<std::remove_reference_t<BackEnd>>);
FERRY_DELETED_BOTH(to_host, try_to_host, (tensor_view const&), "a view owns no memory that a tensor could share: pass a back end and a stream for a copy", inline);
FERRY_DELETED_BOTH(to_host, try_to_host, (managed_tensor const&), "a managed_tensor has one owner and cannot be shared: pass std::move(tensor), or a back end and a stream for a copy", inline);
// clang-format on

/// Overload for tensors in pageable host memory (type cpu); no stream is needed.
///
/// \param tensor  tensor in pageable host memory; consumed on success, unchanged on failure
/// \return        the tensor; `try_to_host` returns the tensor or the error
/// \throws error           errc::stream for any other memory, including pinned and managed memory; errc::consumed when
///                         `tensor` is empty
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] inline managed_tensor to_host(managed_tensor&& tensor,
                                            std::source_location where = std::source_location::current()) {
    return to_dlpack(std::move(tensor), request{.device = cpu}, share_only, {}, where);
}
#endif
[[nodiscard]] inline result<managed_tensor> try_to_host(managed_tensor&& tensor,
                                                        std::source_location where = std::source_location::current()) {
    return try_to_dlpack(std::move(tensor), request{.device = cpu}, share_only, {}, where);
}

}  // namespace FERRY_NAMESPACE
