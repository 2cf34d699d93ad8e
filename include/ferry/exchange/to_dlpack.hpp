// ferry: exports of arrays and tensors.
// length: arrays and tensors share one decision and one implementation of copies
#pragma once

#include <ferry/exchange/consumer.hpp>
#include <ferry/exchange/detail/execute.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/fwd.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <cstdint>
#include <source_location>
#include <type_traits>
#include <typeinfo>
#include <utility>

namespace ferry::inline v0 {
namespace detail {

/// Returns the stream of pending work on the array, or none if its traits do not define `ready_on`.
template <class Array>
[[nodiscard]] stream_token ready_on([[maybe_unused]] Array const& a) {
    if constexpr (has_ready_on<Array>) return array_traits<std::remove_cv_t<Array>>::ready_on(a);
    else return {};
}

/// Whether the argument is an lvalue or can be moved. A const rvalue cannot be moved: its elements would be copied.
template <class Array>
inline constexpr bool can_move = std::is_lvalue_reference_v<Array> || !std::is_const_v<std::remove_reference_t<Array>>;

/// Returns whether all elements lie within the object `a`.
template <class Array>
[[nodiscard]] bool contains_elements(Array const& a, tensor_view const& v, char const* api,
                                     std::source_location where) {
    if (v.is_empty()) return true;
    auto const reach = reach_of(v, api, where);
    auto const begin = reinterpret_cast<std::uintptr_t>(&reinterpret_cast<unsigned char const&>(a));
    auto const offset = reinterpret_cast<std::uintptr_t>(v.data()) - begin;  // large when `v` starts before `a`
    // mutant: d13_within, d13_below, d13_above
    return offset < sizeof a && reach.below <= offset && reach.above <= sizeof a - offset;
}

/// Returns whether the elements remain valid after the array has been moved into a tensor (D13). Without
/// array_traits<T>::owns, a type with a trivial destructor is assumed to own only elements that lie within it.
template <class Array>
[[nodiscard]] bool keeps_elements([[maybe_unused]] Array const& a, [[maybe_unused]] tensor_view const& v,
                                  [[maybe_unused]] char const* api, [[maybe_unused]] std::source_location where) {
    // mutant: d13_run_time
    if constexpr (has_run_time_ownership<Array>) return v.is_empty() || array_traits<Array>::owns(a);
    else if constexpr (requires { array_traits<Array>::owns; }) return array_traits<Array>::owns;
    else if constexpr (std::is_trivially_destructible_v<Array>) return contains_elements(a, v, api, where);
    else return true;
}

/// Returns whether an exchange may share the array.
template <class Array>
[[nodiscard]] bool is_shareable([[maybe_unused]] Array& a, [[maybe_unused]] tensor_view const& v,
                                [[maybe_unused]] char const* api, [[maybe_unused]] std::source_location where) {
    using T = std::remove_cvref_t<Array>;
    if constexpr (std::is_lvalue_reference_v<Array>) return shareable<T>;
    else return keeps_elements<T>(a, v, api, where);
}

/// Returns a struct that owns an rvalue, or the result of `share` for an lvalue.
template <managed_struct Raw, class Array>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* own_raw(Array&& array, device to, flags bits, version max, char const* api,
                                               std::source_location where) {
    if constexpr (!std::is_lvalue_reference_v<Array>) {
        return make_raw<Raw>(std::move(array), view_of, to, bits, max, api, where);
    } else {
        auto other = array_traits<std::remove_cvref_t<Array>>::share(array);
        // The other owner may be read-only although the array is not.
        tensor_view const& v = view_of(other);
        if constexpr (std::same_as<Raw, DLManagedTensor>) static_cast<void>(check_legacy_flags(v, {api, where}));
        bits |= v.flags() & flags::read_only;  // mutant: r11_weaker_handle
        return make_raw<Raw>(std::move(other), view_of, to, bits, max, api, where);
    }
}

/// Throws errc::argument for an object of a class derived from Array, since a move would slice it and could lose the
/// elements.
template <class Array>
void require_not_sliced([[maybe_unused]] Array& array, [[maybe_unused]] char const* api,
                   [[maybe_unused]] std::source_location where) {
#if FERRY_HAS_RTTI
    if constexpr (std::is_polymorphic_v<Array> && !std::is_final_v<Array>)
        if (typeid(array) != typeid(Array))
            fail(
                errc::argument, api,
                message{"the class of the array is derived from the type of the argument, and a move would slice it: "
                        "move it as its own class, add array_traits<T>::share, or pass make_managed a smart pointer "
                        "to it"},
                where);
#endif
}

/// Exports an array as a struct of type `Raw`.
template <managed_struct Raw, class Array, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* export_array(Array&& array, decision const& d, tensor_view const& v,
                                                    stream_token ready, BackEnd& b, char const* api,
                                                    std::source_location where) {
    using T = std::remove_reference_t<Array>;
    if constexpr (!std::is_lvalue_reference_v<Array>) require_not_sliced(array, api, where);
    constexpr bool can_own = !std::is_lvalue_reference_v<Array> || shareable<T>;
    auto const share = [&]() -> Raw* {
        if constexpr (can_own) return own_raw<Raw>(std::forward<Array>(array), d.to, d.bits, d.stamp, api, where);
        else return nullptr;  // not reached: negotiate decides to copy or to refuse
    };
    if constexpr (can_own) {
        // mutant: keep_array
        if (reads_after_return(d, v.device())) {  // the copy keeps its source alive (R50)
            auto source = trusted::adopt(own_raw<DLManagedTensorVersioned>(std::forward<Array>(array), v.device(),
                                                                           v.flags(), version::current, api, where));
            return execute<Raw, std::remove_cv_t<T>>(d, source.view(), ready, b, share, api, where, &source);
        }
    }
    return execute<Raw, std::remove_cv_t<T>>(d, v, ready, b, share, api, where);
}

/// Exports an array with the view `v`, ready on `ready`, for a request and a consumer. `can_share`: the result of
/// `is_shareable`. Always inlined, so that the compiler evaluates the decision for constant requests.
template <class Consumer, class Array, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor export_for(Array&& array, tensor_view const& v, bool can_share,
                                                            request const& req, stream_token ready, BackEnd& b,
                                                            char const* api, std::source_location where) {
    static_assert(
        can_move<Array>,
        "ferry: a const array cannot be moved, and its elements would be copied implicitly: move a non-const array, "
        "or share this one by passing it without std::move");
    require_lanes<Consumer>(v, where);
    auto const d = decide<Consumer>(v, ready, can_share, req);
    return trusted::adopt(
        export_array<DLManagedTensorVersioned>(std::forward<Array>(array), d, v, ready, b, api, where));
}

}  // namespace detail

/// Exports an array: shares its memory if the request and the array allow it, otherwise copies it or throws (R53).
///
/// An rvalue is moved into the tensor, in one allocation (D1). If it does not own its elements, only copies are
/// possible, and an export that would share it throws errc::not_shareable (D13, `array_traits<T>::owns`). An lvalue is
/// shared by array_traits<T>::share, any number of times (R59); without `share` it can be moved, copied
/// (copy_policy::always) or borrowed (`borrow`). A shared tensor is read-only if the view of the array, or
/// of the result of `share`, is read-only (R11). A copy is compact and writable, and has the flag is_copied (R12).
///
/// A request with a stream orders that stream after array_traits<T>::ready_on and does not block (R43). For a request
/// with device = cpu, and for pinned and managed memory without a stream, the data is complete on return (R48, R49).
/// The deleter of an incomplete copy waits for it, if the back end has `mark` (`marking_back_end`). Exceptions of the
/// members of array_traits<T> propagate.
///
/// \param array  array; an rvalue is unchanged on failure before it has been moved. A copy that is queued on a stream
///               keeps its source alive (R50), with two exceptions: the memory of an array that does not own it, and of
///               an lvalue without `share`, must stay valid until the work on the stream is complete.
///               Without a stream in the request, device copies are queued on the default stream (R44); in the two
///               exceptions, they are complete on return.
/// \param req    request
/// \param b      back end; required for copies of device memory, and for waits
/// \param where  source location for errors
/// \return       tensor that owns the array, another owner of its memory, or a copy
/// \throws error           errc::copy_needed, not_shareable, stream, device or no_backend; errc::argument when a move
///                         would slice the array, or the elements are in the object that was moved from; errors of
///                         make_managed and of the back end
/// \throws std::bad_alloc  when an allocation fails
template <class Array, class BackEnd = host_back_end const&>
    requires(detail::has_adapter<Array> && !detail::has_own_exports<std::remove_cvref_t<Array>> &&
             back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] managed_tensor to_dlpack(Array&& array, request const& req, BackEnd&& b = host_only,
                                       std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::to_dlpack";
    if constexpr (detail::is_adapted<std::remove_reference_t<Array>>()) {
        tensor_view const& v = view_of(array);  // first: reports an array that cannot be exported
        bool const can_share = detail::is_shareable<Array>(array, v, api, where);
        return detail::export_for<managed_tensor>(std::forward<Array>(array), v, can_share, req,
                                                  detail::ready_on(array), b, api, where);
    }
}

/// Exports an array without a copy, on its device.
///
/// \param array  array; an rvalue must own its elements, an lvalue needs array_traits<T>::share
/// \param where  source location for errors
/// \return       tensor that owns the array, or another owner of its memory
/// \throws error  errors of the overload with a request
template <class Array>
    requires(detail::has_adapter<Array> && !detail::has_own_exports<std::remove_cvref_t<Array>>)
[[nodiscard]] managed_tensor to_dlpack(Array&& array, call_site where = std::source_location::current()) {
    constexpr auto api = "ferry::to_dlpack";
    if constexpr (detail::is_adapted<std::remove_reference_t<Array>>()) {
        static_assert(
            !non_owning<std::remove_reference_t<Array>> ||
                (std::is_lvalue_reference_v<Array> && shareable<std::remove_reference_t<Array>>),
            "ferry: the elements of this array belong to another object, which the tensor may outlive: export their "
            "owner, call borrow(), or request {.copy = ferry::copy_policy::always}");
        static_assert(
            !std::is_lvalue_reference_v<Array> || shareable<std::remove_reference_t<Array>> ||
                non_owning<std::remove_reference_t<Array>>,
            "ferry: to_dlpack(lvalue) needs an owner: pass std::move(array), call borrow(), add "
            "array_traits<T>::share, or request {.copy = ferry::copy_policy::always}");
        tensor_view const& v = view_of(array);
        bool const can_share = detail::is_shareable<Array>(array, v, api, where.location);
        return detail::export_for<managed_tensor>(std::forward<Array>(array), v, can_share,
                                                  request{.copy = copy_policy::never}, detail::ready_on(array),
                                                  share_only, api, where.location);
    }
}

/// Exports a tensor: returns the tensor itself, with its flags and version (R4, R12), if the request allows it,
/// otherwise copies it.
///
/// The result is a new struct that owns `tensor` if the request names another device type for the same memory (R39), or
/// if the strides are NULL although the version requires them (R24). Synchronises like the overload for arrays.
///
/// \param tensor    tensor; consumed on success, unchanged on failure
/// \param req       request
/// \param b         back end; required for copies of device memory, and for waits
/// \param ready_on  stream on which the data is ready; required for a wait or a copy, except for devices of type cpu
/// \param where     source location for errors
/// \return          the tensor, a struct that owns it, or a copy
/// \throws error  errc::consumed when `tensor` is empty; errors of the overload for arrays
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor to_dlpack(managed_tensor&& tensor, request const& req, BackEnd&& b = host_only,
                                       stream_token ready_on = {},
                                       std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::to_dlpack";
    detail::require_tensor(tensor, api, where);
    auto const d = detail::decide<managed_tensor>(tensor.view(), ready_on, true, req);
    return detail::execute_owned<managed_tensor>(std::move(tensor), d, ready_on, b, api, where);
}

/// Copies the elements of a view, which has no owner and cannot be shared, to new memory (R53).
///
/// The copy is compact and writable, and has the flag is_copied (R12). Without a stream in the request, it is complete
/// on return; otherwise, the function synchronises like the overload for arrays.
///
/// \param view      view; with a stream in the request, its memory must stay valid until the work on the stream is
///                  complete
/// \param req       request
/// \param b         back end; required for copies of device memory, and for waits
/// \param ready_on  stream on which the data is ready; required except for devices of type cpu
/// \param where     source location for errors
/// \return          copy
/// \throws error           errc::not_shareable for copy_policy::never; errors of the overload for arrays
/// \throws std::bad_alloc  when an allocation fails
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor to_dlpack(tensor_view const& view, request const& req, BackEnd&& b = host_only,
                                       stream_token ready_on = {},
                                       std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::to_dlpack";
    auto const d = detail::decide<managed_tensor>(view, ready_on, false, req);
    auto const never_shares = []() -> DLManagedTensorVersioned* { return nullptr; };
    return detail::trusted::adopt(detail::execute<DLManagedTensorVersioned, managed_tensor>(
        d, view, ready_on, b, never_shares, api, where));
}

/// Copies a tensor that the caller keeps. Equivalent to the overload for a view.
///
/// \param tensor    tensor; with a stream in the request, it must exist until the work on the stream is complete
/// \param req       request
/// \param b         back end; required for copies of device memory, and for waits
/// \param ready_on  stream on which the data is ready; required except for devices of type cpu
/// \param where     source location for errors
/// \return          copy
/// \throws error           errc::consumed when `tensor` is empty; errors of the overload for a view
/// \throws std::bad_alloc  when an allocation fails
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor to_dlpack(managed_tensor const& tensor, request const& req, BackEnd&& b = host_only,
                                       stream_token ready_on = {},
                                       std::source_location where = std::source_location::current()) {
    detail::require_tensor(tensor, "ferry::to_dlpack", where);
    return to_dlpack(tensor.view(), req, b, ready_on, where);
}

// clang-format off
managed_tensor to_dlpack(managed_tensor const&) FERRY_DELETED("a managed_tensor has one owner and cannot be shared: pass std::move(tensor) and a request, or request {.copy = ferry::copy_policy::always}");
managed_tensor to_dlpack(tensor_view const&) FERRY_DELETED("a view owns no memory that a tensor could share: export its owner, call borrow(), or request {.copy = ferry::copy_policy::always}");
template <class Other, class... Rest>
    requires(!detail::has_adapter<Other> && !detail::has_own_exports<std::remove_cvref_t<Other>>)
managed_tensor to_dlpack(Other&&, Rest&&...) FERRY_DELETED("unknown array type: specialise ferry::array_traits<T> with static tensor_view view(T&), or give T a member ferry_view()");
template <class From, class Other, class... Rest>
    requires(!back_end<std::remove_reference_t<Other>>)
managed_tensor to_dlpack(From&&, request const&, Other&&, Rest&&...) FERRY_DELETED("the argument is not a back end: it must satisfy ferry::back_end of ferry/space/back_end.hpp");
// clang-format on

}  // namespace ferry::inline v0
