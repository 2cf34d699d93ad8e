// ferry: exports: an array becomes a tensor that travels.
// length: arrays and tensors, by one decision and one way to copy
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

template <class Array>
[[nodiscard]] stream_token ready_on([[maybe_unused]] Array const& a) {
    if constexpr (has_ready_on<Array>) return array_traits<std::remove_cv_t<Array>>::ready_on(a);
    else return {};
}

[[nodiscard]] inline tensor_properties properties_of(tensor_view const& v, stream_token ready,
                                                      bool is_shareable) noexcept {
    return {.where = v.device(), .bits = v.flags(), .type = v.dtype(), .ready_on = ready, .is_shareable = is_shareable};
}

/// A copy, and what a stream may still be reading to make it.
template <class Owner, class Mark>
struct copied {
    Owner memory;
    managed_tensor source;
    [[no_unique_address]] Mark queued{};  // last: it waits before they go
};

/// A const array cannot be moved from: to take it over would copy its elements in silence.
template <class Array>
inline constexpr bool can_move = std::is_lvalue_reference_v<Array> || !std::is_const_v<std::remove_reference_t<Array>>;

/// Whether the elements stay valid when the array moves into a tensor (D13). What its traits leave open is deduced: a
/// type with a trivial destructor releases nothing, so that its elements lie within it or belong to another object.
template <class Array>
[[nodiscard]] bool keeps_elements([[maybe_unused]] Array const& a, [[maybe_unused]] tensor_view const& v) {
    if constexpr (has_run_time_ownership<Array>) {
        return v.is_empty() || array_traits<Array>::owns(a);  // mutant: d13_run_time
    } else if constexpr (requires { array_traits<Array>::owns; }) {
        static_assert(std::same_as<decltype(array_traits<Array>::owns), bool const>,
                      "ferry: array_traits<T>::owns must be static constexpr bool owns, or static bool owns(T const&)");
        return array_traits<Array>::owns;
    } else if constexpr (std::is_trivially_destructible_v<Array>) {
        auto const first = reinterpret_cast<std::uintptr_t>(&reinterpret_cast<unsigned char const&>(a));
        return v.is_empty() || reinterpret_cast<std::uintptr_t>(v.data()) - first < sizeof a;  // mutant: d13_within
    } else {
        return true;
    }
}

/// Whether an exchange may share the array.
template <class Array>
[[nodiscard]] bool is_shareable([[maybe_unused]] Array& a, [[maybe_unused]] tensor_view const& v) {
    using T = std::remove_cvref_t<Array>;
    if constexpr (std::is_lvalue_reference_v<Array>) return shareable<T>;
    else return keeps_elements<T>(a, v);
}

/// Whether a copy may still read `source` when the exchange returns. Memory of the host was read then (see `back_end`).
[[nodiscard]] constexpr bool reads_after_return(decision const& d, device source) noexcept {
    // mutant: reads_later_host
    return d.act == action::copy && d.on.names_stream() && d.how != wait::host && source.type != device_type::cpu;
}

/// Where a source is for a back end: memory that the host reads, that is wanted on the host and on which nothing is
/// queued, is host memory to a back end that does not reach it (R39).
[[nodiscard]] device source_for(auto& b, decision const& d, device where) {
    bool const host_copies = d.to.type == device_type::cpu && is_host_accessible(where) && !d.on.names_stream();
    return host_copies && !b.reaches(where) ? cpu : where;  // mutant: r39_host_copies
}

/// A copy of `v` in the fresh memory that `owner` holds and `view_of_owner` describes, with the waits of the decision.
/// The struct exists before the copy is queued, so that no failure to make it can free memory that a queued copy still
/// writes. The copy takes `source` over, if there is one, when it may still be read (R50), and waits for itself when it
/// is dropped before (`marking_back_end`); nothing is taken on failure.
template <managed_struct Raw, class Owner, class ViewOf, class BackEnd>
[[nodiscard]] Raw* copy_into(Owner owner, ViewOf view_of_owner, tensor_view const& v, decision const& d,
                             stream_token ready, BackEnd& b, managed_tensor* source, char const* api,
                             std::source_location where) {
    using kept = copied<Owner, queued_by<BackEnd>>;
    kept taken{std::move(owner), {}};
    stream_memory_guard behind{b, d.on, d.to};  // mutant: copy_failed_struct
    tensor_view const fresh = view_of_owner(taken.memory);
    if (!is_same_device(fresh.device(), d.to))  // mutant: r41_place
        fail(errc::device, api,
             message{"the copy is wanted on "}
                 << name(d.to.type) << ":" << d.to.id << ", but array_traits::allocate gave memory on "
                 << name(fresh.device().type) << ":" << fresh.device().id << ": it must throw where it has none",
             where);
    if (std::same_as<Raw, DLManagedTensor> && fresh.is_padded())
        fail(errc::flags, api,
             message{"the legacy struct cannot say that sub-byte elements are padded (R13): ask for version 1"}, where);
    auto const packing = fresh.flags() & flags::subbyte_padded;
    auto const view_at = [&](kept& c) { return tensor_view{view_of_owner(c.memory)}; };
    // mutant: r13_packing
    Raw* const raw = make_raw<Raw>(std::move(taken), view_at, d.to, (d.bits & ~flags::subbyte_padded) | packing,
                                   d.stamp, api, where);
    auto& copy = static_cast<block<Raw, kept>*>(raw->manager_ctx)->owner;
    try {
        tensor_view const dst{raw->dl_tensor, fresh.flags()};
        if (!v.is_empty()) {
            auto const plan = make_copy_plan(dst, v, api, where);
            if (d.how == wait::order) ferry::order(ready, d.on, b);  // mutant: copy_into_order
            auto const from = source_for(b, d, v.device());
            // mutant: copy_into_wait
            if (d.how == wait::host) copy_and_wait(b, plan, dst.data(), d.to, v.data(), from, d.on);
            else if (!queue_copy(b, plan, dst.data(), d.to, v.data(), from, d.on))
                copy.queued = mark_queued(b, d.on);  // mutant: copy_queued_mark
        }
    } catch (...) {
        behind.wait();
        raw->deleter(raw);  // mutant: r68_failed_copy
        throw;
    }
    behind.done();
    if (source != nullptr && reads_after_return(d, v.device()))  // mutant: keep_source
        copy.source = std::move(*source);
    return raw;
}

/// Carries out a decision for a tensor `v` that is ready on `ready`. `Array` lends its own memory to copies when it
/// can; `share_as()` makes the struct that shares. `source` owns `v`, unless the caller keeps it alive until a queued
/// copy has run.
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

/// Owns an rvalue, or another handle to an lvalue, as it stands.
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

/// An object of a derived class, moved through its base, would leave behind what it is more: its elements, often.
template <class Array>
void require_not_sliced([[maybe_unused]] Array& array, [[maybe_unused]] char const* api,
                   [[maybe_unused]] std::source_location where) {
#if FERRY_HAS_RTTI
    if constexpr (std::is_polymorphic_v<Array> && !std::is_final_v<Array>)
        if (typeid(array) != typeid(Array))
            fail(
                errc::argument, api,
                message{
                    "the array is of a class derived from the one that it is moved as, and would be sliced: move it as what it "
                    "is, add array_traits<T>::share, or give make_managed a smart pointer to it"},
                where);
#endif
}

/// Exports an array as the struct that `Raw` names.
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
            // The handle may allow less than the array.
            auto const bits = d.bits | (view_of(other).flags() & flags::read_only);  // mutant: r11_weaker_handle
            if (std::same_as<Raw, DLManagedTensor> && has(bits, flags::read_only))
                fail(errc::read_only, api,
                     message{"the legacy struct cannot say that the shared data is read-only (R15)"}, where);
            return make_raw<Raw>(std::move(other), view_of, d.to, bits, d.stamp, api, where);
        } else {
            return nullptr;  // negotiate refuses what cannot be shared
        }
    };
    if constexpr (!std::is_lvalue_reference_v<Array> || shareable<T>) {
        // mutant: keep_array
        if (reads_after_return(d, v.device())) {  // the copy keeps what it is made from alive (R50)
            auto source = trusted::adopt(own_versioned(std::forward<Array>(array), v.flags(), api, where));
            return execute<Raw, std::remove_cv_t<T>>(d, source.view(), ready, b, share_as, api, where, &source);
        }
    }
    return execute<Raw, std::remove_cv_t<T>>(d, v, ready, b, share_as, api, where);
}

/// Exports an array under a request. Inlined, so that nothing is left of a request that is known.
template <class Array, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor export_versioned(Array&& array, request const& req, BackEnd& b,
                                                                  std::source_location where) {
    tensor_view const v = view_of(array);
    auto const ready = detail::ready_on(array);
    auto const d = negotiate(properties_of(v, ready, is_shareable<Array>(array, v)), req);
    return trusted::adopt(
        export_array<DLManagedTensorVersioned>(std::forward<Array>(array), d, v, ready, b, "ferry::to_dlpack", where));
}

}  // namespace detail

/// Exports an array: shares its memory when the request allows it, else copies, else says why not (R53).
///
/// An rvalue moves into the tensor, which then owns it: one allocation (D1). It is moved as the type that it has here:
/// an object of a derived class is refused. One whose elements belong to another object, as its traits say or its
/// trivial destructor shows, is copied or refused (D13, `array_traits<T>::owns`). An lvalue is shared by
/// array_traits::share, as often as asked (R59); an array without it can only be moved, copied (copy_policy::always) or
/// lent (`borrow`).
/// What is shared is read-only where the array or its constness says so (R11); a copy is compact, writable and flagged
/// is_copied (R12).
///
/// Synchronises as the request says: with a stream, that stream is ordered after array_traits::ready_on and nothing
/// blocks (R43); with device = cpu, and for pinned and managed memory without a stream, the data is there on return
/// (R48, R49). On failure before the move the array is still the caller's. A copy that is queued on a stream keeps its
/// source alive, as long as the copy itself lives (R50); an lvalue without array_traits::share must outlive the queued
/// copy. Dropped before it was made, such a copy waits for itself (`marking_back_end`); so does the memory of one that
/// failed.
///
/// \throws error  errc::copy_needed, not_shareable, stream, device, no_backend, argument (it would be sliced); what
///                `validate` finds in the view; what the back end reports;  std::bad_alloc
template <class Array, class BackEnd = host_back_end const&>
    requires(!detail::has_own_exports<std::remove_cvref_t<Array>>)
[[nodiscard]] managed_tensor to_dlpack(Array&& array, request const& req, BackEnd&& b = host_only,
                                       std::source_location where = std::source_location::current()) {
    static_assert(back_end<std::remove_reference_t<BackEnd>>,
                  "ferry: this is no back end: see ferry::back_end in ferry/space/back_end.hpp");
    static_assert(
        detail::can_move<Array>,
        "ferry: a const array cannot be moved from, and its elements would be copied in silence: move a non-const array, or "
        "share this one by passing it without std::move");
    if constexpr (detail::is_adapted<std::remove_reference_t<Array>>())
        return detail::export_versioned(std::forward<Array>(array), req, b, where);
}

/// Exports an array as it stands: shares, where it is. Lvalues need array_traits::share.
template <class Array>
    requires(!detail::has_own_exports<std::remove_cvref_t<Array>>)
[[nodiscard]] managed_tensor to_dlpack(Array&& array, call_site where = std::source_location::current()) {
    static_assert(
        detail::can_move<Array>,
        "ferry: a const array cannot be moved from, and its elements would be copied in silence: move a non-const array, or "
        "share this one by passing it without std::move");
    if constexpr (detail::is_adapted<std::remove_reference_t<Array>>()) {
        static_assert(
            std::is_lvalue_reference_v<Array> || !non_owning<std::remove_reference_t<Array>>,
            "ferry: the elements of this array belong to another object, which the tensor would outlive: move their owner in, or "
            "borrow() the array, or ask for {.copy = ferry::copy_policy::always}");
        static_assert(
            !std::is_lvalue_reference_v<Array> || shareable<std::remove_reference_t<Array>>,
            "ferry: to_dlpack(lvalue) needs an owner: move it, or borrow() it, or add array_traits<T>::share, or ask for "
            "{.copy = ferry::copy_policy::always}");
        return detail::export_versioned(std::forward<Array>(array), request{}, host_only, where.location);
    }
}

/// Moves a tensor on: untouched, flags and version included (R4, R12), when the request allows it, else copied. Strides
/// that are missing under a version that promises them are written, in a struct that owns `tensor` (R24). The result is
/// ready as `req.stream` says; `ready_on` is where it is ready now, and must be said for memory off the host.
///
/// Owns `tensor` on success; on failure it is still the caller's.
/// \throws error  as above
template <class BackEnd = host_back_end const&>
[[nodiscard]] managed_tensor to_dlpack(managed_tensor&& tensor, request const& req, BackEnd&& b = host_only,
                                       stream_token ready_on = {},
                                       std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::to_dlpack";
    if (!tensor)
        detail::fail(errc::consumed, api, message{"the managed_tensor holds nothing: it was moved from or released"},
                     where);
    tensor_view const v = tensor.view();
    auto const d = negotiate(detail::properties_of(v, ready_on, true), req);
    // R24: ferry promises strides under a minor of 2 or more, even where the producer left them out.
    bool const lacks_strides = v.strides().is_implicit() && v.rank() != 0 && tensor.stamped().minor >= 2;
    auto const share_as = [&]() -> DLManagedTensorVersioned* {
        if (is_same_device(d.to, v.device()) && !lacks_strides) return nullptr;  // mutant: r24_pass_on
        auto const bits = d.bits | (v.flags() & flags::is_copied);  // mutant: r12_relabel_keeps
        return detail::make_raw<DLManagedTensorVersioned>(
            std::move(tensor), [v](auto&) { return v; }, d.to, bits, d.stamp, api, where);
    };
    auto* const raw =
        detail::execute<DLManagedTensorVersioned, managed_tensor>(d, v, ready_on, b, share_as, api, where, &tensor);
    if (raw == nullptr) return std::move(tensor);  // as it is, with the fields that were checked (R33)
    // mutant: r68_spent
    managed_tensor const spent{std::move(tensor)};  // copied, and nobody reads it any more
    return detail::trusted::adopt(raw);
}

template <class Tensor, class... Rest>
    requires(std::is_lvalue_reference_v<Tensor> && std::same_as<std::remove_cvref_t<Tensor>, managed_tensor>)
managed_tensor to_dlpack(Tensor&&, Rest&&...) FERRY_DELETED("a managed_tensor has one owner: std::move it in");

/// Lends an array for the length of a call: no allocation, no ownership. Temporaries do not compile.
/// \throws error  what `validate` finds in the view
template <class Array>
[[nodiscard]] borrowed_tensor borrow(Array& array, std::source_location where = std::source_location::current()) {
    static_assert(detail::is_adapted<Array>());
    return borrowed_tensor{view_of(array), where};
}
template <class Array>
    requires(!std::is_lvalue_reference_v<Array>)
// clang-format off
void borrow(Array&&) FERRY_DELETED("the temporary dies before the callee is done: keep it in a variable, or move it into to_dlpack");
// clang-format on

}  // namespace ferry::inline v0
