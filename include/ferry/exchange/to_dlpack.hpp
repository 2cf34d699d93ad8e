// ferry: exports of arrays and tensors.
// length: arrays and tensors share one decision and one implementation of copies
#pragma once

#include <ferry/exchange/negotiate.hpp>
#include <ferry/exchange/order.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/fwd.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/tensor/borrow.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <cstddef>
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

/// Returns the properties of a view whose data is ready on `ready`.
[[nodiscard]] inline tensor_properties properties_of(tensor_view const& v, stream_token ready,
                                                     bool is_shareable) noexcept {
    return {.where = v.device(), .bits = v.flags(), .type = v.dtype(), .ready_on = ready, .is_shareable = is_shareable};
}

/// The memory of a copy, and its source, which a stream may still read.
template <class Owner, class Mark>
struct copy_with_source {
    Owner memory;
    managed_tensor source;
    [[no_unique_address]] Mark queued{};  // last member: waits before the others are destroyed
};

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

/// Returns whether a copy may still read `source` after the exchange has returned. Host memory has been read by then;
/// see `back_end`.
[[nodiscard]] constexpr bool reads_after_return(decision const& d, device source) noexcept {
    // mutant: reads_later_host
    return d.act == action::copy && d.on.names_stream() && d.how != wait::host && source.type != device_type::cpu;
}

/// Returns the device of a source to pass to the back end: cpu if the memory is host-accessible, has no pending work,
/// and is copied to the CPU by a back end that does not reach its device (R39); otherwise `dev`.
[[nodiscard]] device source_for(auto& b, decision const& d, device dev) {
    bool const host_copies = d.to.type == device_type::cpu && is_host_accessible(dev) && !d.on.names_stream();
    return host_copies && !b.reaches(dev) ? cpu : dev;  // mutant: r39_host_copies
}

/// Copies `v` into the new memory that `owner` holds and `view_of_owner` describes, and performs the waits of the
/// decision.
///
/// Creates the struct before it queues the copy, so that a failed allocation cannot free memory that a queued copy
/// writes. The result owns `source`, if not null, while a stream may read it (R50); its deleter waits for an incomplete
/// copy (`marking_back_end`). On failure `source` is unchanged.
template <managed_struct Raw, class Owner, class ViewOf, class BackEnd>
[[nodiscard]] Raw* copy_into(Owner owner, ViewOf view_of_owner, tensor_view const& v, decision const& d,
                             stream_token ready, BackEnd& b, managed_tensor* source, char const* api,
                             std::source_location where) {
    using contents_type = copy_with_source<Owner, queued_by<BackEnd>>;
    contents_type contents{std::move(owner), {}};
    stream_memory_guard guard{b, d.on, d.to};  // mutant: copy_failed_struct
    tensor_view const fresh = view_of_owner(contents.memory);
    if (!is_same_device(fresh.device(), d.to))  // mutant: r41_place
        fail(errc::device, api,
             message{"array_traits::allocate returned memory on "}
                 << name(fresh.device().type) << ":" << fresh.device().id << ", expected " << name(d.to.type) << ":"
                 << d.to.id << ": it must throw for unsupported devices",
             where);
    if (std::same_as<Raw, DLManagedTensor> && fresh.is_padded())
        fail(errc::flags, api,
             message{"the legacy struct has no flag for padded sub-byte elements (R13): request max_version=(1, 0)"},
             where);
    auto const packing = fresh.flags() & flags::subbyte_padded;
    auto const view_at = [&](contents_type& c) { return tensor_view{view_of_owner(c.memory)}; };
    // mutant: r13_packing
    Raw* const raw = make_raw<Raw>(std::move(contents), view_at, d.to, (d.bits & ~flags::subbyte_padded) | packing,
                                   d.stamp, api, where);
    auto& copy = static_cast<block<Raw, contents_type>*>(raw->manager_ctx)->owner;
    try {
        tensor_view const dst{raw->dl_tensor, fresh.flags()};
        auto const plan = make_copy_plan(dst, v, api, where);  // also compares the shapes and types of empty tensors
        if (plan.kind != copy_kind::empty) {
            if (d.how == wait::order) ferry::order(ready, d.on, b);  // mutant: copy_into_order
            auto const from = source_for(b, d, v.device());
            // mutant: copy_into_wait
            if (d.how == wait::host) copy_and_wait(b, plan, dst.data(), d.to, v.data(), from, d.on);
            else if (!queue_copy(b, plan, dst.data(), d.to, v.data(), from, d.on))
                copy.queued = mark_queued(b, d.on);  // mutant: copy_queued_mark
        }
    } catch (...) {
        guard.wait();
        raw->deleter(raw);  // mutant: r68_failed_copy
        throw;
    }
    guard.done();
    if (source != nullptr && reads_after_return(d, v.device()))  // mutant: keep_source
        copy.source = std::move(*source);
    return raw;
}

/// Performs a decision for a tensor `v` that is ready on `ready_on`.
///
/// Copies into memory of array_traits<Array>::allocate, if defined, else of the back end. `share_as()` returns the
/// struct of a share. `source` owns `v`; if it is null, the caller keeps `v` alive until a queued copy has run.
template <managed_struct Raw, class Array, class BackEnd, class ShareAs>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* execute(decision const& d, tensor_view const& v, stream_token ready_on,
                                              BackEnd& b, ShareAs share_as, char const* api, std::source_location where,
                                              managed_tensor* source = nullptr) {
    if (d.act == action::refuse) fail(d.reason, api, message{d.text}, where);
    stream_token const ready = ready_on.bound_to(v.device());  // mutant: r43_bound_producer
    if (d.how != wait::none || d.act == action::copy)
        require_reach(b, source_for(b, d, v.device()), api, where);  // mutant: r40_reach
    if (d.act == action::share) {
        apply_wait(d, ready, b);
        return share_as();
    }
    require_reach(b, d.to, api, where);  // mutant: r40_reach_target
    validate_view(v, api, where);
    if constexpr (allocates<Array>) {
        return copy_into<Raw>(array_traits<Array>::allocate(v.dtype(), v.shape(), d.to), view_of, v, d, ready, b,
                              source, api, where);
    } else {
        auto const packing = d.bits & flags::subbyte_padded;
        tensor_view const sized{static_cast<void*>(nullptr), v.dtype(), v.shape(), {}, d.to, packing};
        auto memory = b.allocate(d.to, static_cast<std::size_t>(sized.nbytes()), d.on);
        auto const view_of_memory = [&](auto& m) {
            return tensor_view{static_cast<void*>(m.data()), v.dtype(), v.shape(), {}, d.to, sized.flags()};
        };
        return copy_into<Raw>(std::move(memory), view_of_memory, v, d, ready, b, source, api, where);
    }
}

/// Returns a struct that owns an rvalue, or the result of `share` for an lvalue.
template <class Array>
[[nodiscard]] DLManagedTensorVersioned* own_versioned(Array&& array, flags bits, char const* api,
                                                      std::source_location where) {
    auto const own = [&](auto&& owner) {
        device const place = view_of(owner).device();
        return make_raw<DLManagedTensorVersioned>(std::move(owner), view_of, place, bits, version::current, api, where);
    };
    if constexpr (!std::is_lvalue_reference_v<Array>) return own(std::move(array));
    else return own(array_traits<std::remove_cvref_t<Array>>::share(array));
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
    auto const share_as = [&]() -> Raw* {
        if constexpr (!std::is_lvalue_reference_v<Array>) {
            return make_raw<Raw>(std::move(array), view_of, d.to, d.bits, d.stamp, api, where);
        } else if constexpr (shareable<T>) {
            auto other = array_traits<std::remove_cv_t<T>>::share(array);
            // The other owner may be read-only although the array is not.
            auto const bits = d.bits | (view_of(other).flags() & flags::read_only);  // mutant: r11_weaker_handle
            if (std::same_as<Raw, DLManagedTensor> && has(bits, flags::read_only))
                fail(errc::read_only, api,
                     message{"the legacy struct has no flag for read-only data (R15): request max_version=(1, 0), or "
                             "a copy"},
                     where);
            return make_raw<Raw>(std::move(other), view_of, d.to, bits, d.stamp, api, where);
        } else {
            return nullptr;  // not reached: negotiate refuses to share
        }
    };
    if constexpr (!std::is_lvalue_reference_v<Array> || shareable<T>) {
        // mutant: keep_array
        if (reads_after_return(d, v.device())) {  // the copy keeps its source alive (R50)
            auto source = trusted::adopt(own_versioned(std::forward<Array>(array), v.flags(), api, where));
            return execute<Raw, std::remove_cv_t<T>>(d, source.view(), ready, b, share_as, api, where, &source);
        }
    }
    return execute<Raw, std::remove_cv_t<T>>(d, v, ready, b, share_as, api, where);
}

/// Exports an array for a request. Always inlined, so that the compiler evaluates the decision for constant requests.
template <class Array, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor export_versioned(Array&& array, request const& req, BackEnd& b,
                                                                  std::source_location where) {
    constexpr auto api = "ferry::to_dlpack";
    tensor_view const v = view_of(array);
    auto const ready = detail::ready_on(array);
    auto const d = negotiate(properties_of(v, ready, is_shareable<Array>(array, v, api, where)), req);
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
/// \param req    request
/// \param b      back end; required for copies of device memory, and for waits
/// \param where  source location for errors
/// \return       tensor that owns the array, another owner of its memory, or a copy
/// \throws error           errc::copy_needed, not_shareable, stream, device or no_backend; errc::argument when a move
///                         would slice the array, or the elements are in the object that was moved from; errors of
///                         make_managed and of the back end
/// \throws std::bad_alloc  when an allocation fails
template <class Array, class BackEnd = host_back_end const&>
    requires(!detail::has_own_exports<std::remove_cvref_t<Array>>)
[[nodiscard]] managed_tensor to_dlpack(Array&& array, request const& req, BackEnd&& b = host_only,
                                       std::source_location where = std::source_location::current()) {
    static_assert(back_end<std::remove_reference_t<BackEnd>>,
                  "ferry: the argument is not a back end: it must satisfy ferry::back_end of ferry/space/back_end.hpp");
    static_assert(
        detail::can_move<Array>,
        "ferry: a const array cannot be moved, and its elements would be copied implicitly: move a non-const array, "
        "or share this one by passing it without std::move");
    if constexpr (detail::is_adapted<std::remove_reference_t<Array>>())
        return detail::export_versioned(std::forward<Array>(array), req, b, where);
}

/// Exports an array without a copy, on its device.
///
/// \param array  array; an rvalue must own its elements, an lvalue needs array_traits<T>::share
/// \param where  source location for errors
/// \return       tensor that owns the array, or another owner of its memory
/// \throws error  errors of the overload with a request
template <class Array>
    requires(!detail::has_own_exports<std::remove_cvref_t<Array>>)
[[nodiscard]] managed_tensor to_dlpack(Array&& array, call_site where = std::source_location::current()) {
    static_assert(
        detail::can_move<Array>,
        "ferry: a const array cannot be moved, and its elements would be copied implicitly: move a non-const array, "
        "or share this one by passing it without std::move");
    if constexpr (detail::is_adapted<std::remove_reference_t<Array>>()) {
        static_assert(
            std::is_lvalue_reference_v<Array> || !non_owning<std::remove_reference_t<Array>>,
            "ferry: the elements of this array belong to another object, which the tensor may outlive: export their "
            "owner, call borrow(), or request {.copy = ferry::copy_policy::always}");
        static_assert(
            !std::is_lvalue_reference_v<Array> || shareable<std::remove_reference_t<Array>>,
            "ferry: to_dlpack(lvalue) needs an owner: pass std::move(array), call borrow(), add "
            "array_traits<T>::share, or request {.copy = ferry::copy_policy::always}");
        return detail::export_versioned(std::forward<Array>(array), request{}, host_only, where.location);
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
[[nodiscard]] managed_tensor to_dlpack(managed_tensor&& tensor, request const& req, BackEnd&& b = host_only,
                                       stream_token ready_on = {},
                                       std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::to_dlpack";
    if (!tensor)
        detail::fail(errc::consumed, api, message{"the managed_tensor is empty: it was moved from or released"},
                     where);
    tensor_view const v = tensor.view();
    auto const d = negotiate(detail::properties_of(v, ready_on, true), req);
    // R24: a tensor of minor version 2 or later must have strides; a new struct adds those that are missing.
    bool const lacks_strides = v.strides().is_implicit() && v.rank() != 0 && tensor.stamped().minor >= 2;
    auto const share_as = [&]() -> DLManagedTensorVersioned* {
        if (is_same_device(d.to, v.device()) && !lacks_strides) return nullptr;  // mutant: r24_pass_on
        auto const bits = d.bits | (v.flags() & flags::is_copied);  // mutant: r12_relabel_keeps
        return detail::make_raw<DLManagedTensorVersioned>(
            std::move(tensor), [v](auto&) { return v; }, d.to, bits, d.stamp, api, where);
    };
    auto* const raw =
        detail::execute<DLManagedTensorVersioned, managed_tensor>(d, v, ready_on, b, share_as, api, where, &tensor);
    if (raw == nullptr) return std::move(tensor);  // unchanged, with the fields that were checked (R33)
    // mutant: r68_released
    managed_tensor const released{std::move(tensor)};  // the copy no longer reads the source
    return detail::trusted::adopt(raw);
}

template <class Tensor, class... Rest>
    requires(std::is_lvalue_reference_v<Tensor> && std::same_as<std::remove_cvref_t<Tensor>, managed_tensor>)
managed_tensor to_dlpack(Tensor&&, Rest&&...) FERRY_DELETED("a managed_tensor has one owner and cannot be shared: pass std::move(tensor)");

/// Exports an array for the duration of a call, without an allocation and without ownership. Temporaries do not
/// compile.
///
/// \param array  array; must outlive the result
/// \param where  source location for errors
/// \return       struct that borrows the array
/// \throws error  errc::rank for more than borrowed_tensor::max_rank dimensions; errc::strides when the number of
///                strides is not the rank; errors of `validate`
template <class Array>
[[nodiscard]] borrowed_tensor borrow(Array& array, std::source_location where = std::source_location::current()) {
    static_assert(detail::is_adapted<Array>());
    return borrowed_tensor{view_of(array), where};
}
template <class Array>
    requires(!std::is_lvalue_reference_v<Array>)
// clang-format off
void borrow(Array&&) FERRY_DELETED("the borrowed_tensor would outlive the temporary array: store the array in a variable, or pass it to to_dlpack");
// clang-format on

}  // namespace ferry::inline v0
