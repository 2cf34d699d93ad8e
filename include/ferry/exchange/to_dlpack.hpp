// ferry: exports: an array becomes a tensor that travels.
#pragma once

#include <ferry/exchange/negotiate.hpp>
#include <ferry/exchange/order.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/tensor/borrow.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <cstddef>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry {
namespace detail {

template <class Array>
[[nodiscard]] stream_token ready_on([[maybe_unused]] Array const& a) {
    if constexpr (tells_ready_on<Array>) return array_traits<std::remove_cv_t<Array>>::ready_on(a);
    else return {};
}

[[nodiscard]] inline producer_facts facts_of(tensor_view const& v, stream_token ready, bool is_shareable) noexcept {
    return {.where = v.device(), .bits = v.flags(), .type = v.dtype(), .ready_on = ready, .is_shareable = is_shareable};
}

/// A compact copy of `v` in memory that `owner` holds and `dst` describes, with the waits of the decision. The struct
/// exists before the copy is queued, so that no failure can free memory that a queued copy still writes.
template <managed_struct Raw, class Owner, class ViewOf, class BackEnd>
[[nodiscard]] Raw* copy_into(Owner&& owner, ViewOf view_of_owner, tensor_view const& v, decision const& d,
                             stream_token ready, BackEnd& b, char const* api, std::source_location where) {
    Raw* const raw = make_raw<Raw>(std::forward<Owner>(owner), view_of_owner, d.to, d.bits, d.stamp, api, where);
    try {
        tensor_view const dst{raw->dl_tensor, d.bits & flags::subbyte_padded};
        if (!v.is_empty()) {
            auto const plan = make_copy_plan(dst, v, api, where);
            if (d.how == wait::order) ferry::order(ready, d.on, b);
            b.copy(plan, dst.data(), d.to, v.data(), v.device(), d.on);
            if (d.how == wait::host) b.wait(d.on);
        }
    } catch (...) {
        raw->deleter(raw);
        throw;
    }
    return raw;
}

/// Carries out a decision for a tensor `v` that is ready on `ready`. `Array` lends its own memory to copies when it can;
/// `share_as(decision)` makes the struct that shares.
template <managed_struct Raw, class Array, class BackEnd, class ShareAs>
[[nodiscard]] Raw* fulfil(decision const& d, tensor_view const& v, stream_token ready, BackEnd& b, ShareAs share_as,
                          char const* api, std::source_location where) {
    if (d.act == action::refuse) fail(d.reason, api, message{d.cure}, where);
    if (d.how != wait::none || d.act == action::copy) require_reach(b, v.device(), api, where);
    if (d.act == action::share) {
        settle(d, ready, b);
        return share_as();
    }
    require_reach(b, d.to, api, where);
    validate_view(v, api, where);
    if constexpr (allocates<Array>) {
        return copy_into<Raw>(array_traits<Array>::allocate(v.dtype(), v.shape(), d.to), view_of, v, d, ready, b, api, where);
    } else {
        tensor_view const sized{static_cast<void*>(nullptr), v.dtype(), v.shape(), {}, d.to, d.bits & flags::subbyte_padded};
        auto memory = b.allocate(d.to, static_cast<std::size_t>(sized.nbytes()), d.on);
        auto const view_of_memory = [&](auto& m) {
            return tensor_view{static_cast<void*>(m.data()), v.dtype(), v.shape(), {}, d.to, sized.flags()};
        };
        return copy_into<Raw>(std::move(memory), view_of_memory, v, d, ready, b, api, where);
    }
}

/// Exports an array as the struct that `Raw` names.
template <managed_struct Raw, class Array, class BackEnd>
[[nodiscard]] Raw* export_array(Array&& array, decision const& d, tensor_view const& v, stream_token ready, BackEnd& b,
                                char const* api, std::source_location where) {
    using T = std::remove_reference_t<Array>;
    auto const share_as = [&]() -> Raw* {
        if constexpr (!std::is_lvalue_reference_v<Array>) {
            return make_raw<Raw>(std::move(array), view_of, d.to, d.bits, d.stamp, api, where);
        } else if constexpr (shareable<T>) {
            return make_raw<Raw>(array_traits<std::remove_cv_t<T>>::share(array), view_of, d.to, d.bits, d.stamp, api, where);
        } else {
            return nullptr;  // negotiate refuses what cannot be shared
        }
    };
    return fulfil<Raw, std::remove_cv_t<T>>(d, v, ready, b, share_as, api, where);
}

}  // namespace detail

/// Exports an array: shares its memory when the request allows it, else copies, else says why not (R53).
///
/// An rvalue moves into the tensor, which then owns it: one allocation (D1). An lvalue is shared by array_traits::share; an
/// array without it can only be moved, copied (copy_policy::always) or lent (`borrow`). What is shared is read-only where
/// the array or its constness says so (R11); a copy is compact, writable and flagged is_copied (R12).
///
/// Synchronises as the request says: with a stream, that stream is ordered after array_traits::ready_on and nothing blocks
/// (R43); with device = cpu, and for pinned and managed memory without a stream, the data is there on return (R48, R49).
/// On failure before the move the array is still the caller's.
///
/// \throws error  errc::copy_needed, not_shareable, stream, device, no_backend; what `validate` finds in the view; what
///                the back end reports;  std::bad_alloc
template <class Array, class BackEnd = host_back_end const&>
    requires(!std::same_as<std::remove_cvref_t<Array>, managed_tensor>)
[[nodiscard]] managed_tensor to_dlpack(Array&& array, request const& wish, BackEnd&& b = host_only,
                                       std::source_location where = std::source_location::current()) {
    using T = std::remove_reference_t<Array>;
    static_assert(back_end<std::remove_reference_t<BackEnd>>, "ferry: this is no back end: see ferry::back_end in ferry/space/back_end.hpp");
    if constexpr (detail::is_adapted<T>()) {
        tensor_view const v = view_of(array);
        auto const ready = detail::ready_on(array);
        auto const d = negotiate(detail::facts_of(v, ready, !std::is_lvalue_reference_v<Array> || shareable<T>), wish);
        return detail::trusted::adopt(detail::export_array<DLManagedTensorVersioned>(
            std::forward<Array>(array), d, v, ready, b, "ferry::to_dlpack", where));
    }
}

/// Exports an array as it stands: shares, where it is. Lvalues need array_traits::share.
template <class Array>
    requires(!std::same_as<std::remove_cvref_t<Array>, managed_tensor>)
[[nodiscard]] managed_tensor to_dlpack(Array&& array, call_site where = std::source_location::current()) {
    if constexpr (detail::is_adapted<std::remove_reference_t<Array>>()) {
        static_assert(!std::is_lvalue_reference_v<Array> || shareable<std::remove_reference_t<Array>>,
                      "ferry: to_dlpack(lvalue) needs an owner: move it, or borrow() it, or add array_traits<T>::share, or ask for "
                      "{.copy = ferry::copy_policy::always}");
        return to_dlpack(std::forward<Array>(array), request{}, host_only, where.location);
    }
}

/// Moves a tensor on: untouched, flags included (R12), when the request allows it, else copied. The result is ready as
/// `wish.stream` says; `ready_on` is where it is ready now, and must be said for memory off the host.
///
/// Owns `tensor` on success; on failure it is still the caller's.
/// \throws error  as above
template <class BackEnd = host_back_end const&>
[[nodiscard]] managed_tensor to_dlpack(managed_tensor&& tensor, request const& wish, BackEnd&& b = host_only,
                                       stream_token ready_on = {},
                                       std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::to_dlpack";
    if (!tensor) detail::fail(errc::consumed, api, message{"the managed_tensor holds nothing: it was moved from or released"}, where);
    tensor_view const v = tensor.view();
    auto const d = negotiate(detail::facts_of(v, ready_on, true), wish);
    auto const share_as = [&]() -> DLManagedTensorVersioned* {
        if (is_same_place(d.to, v.device())) return tensor.release();
        auto const bits = d.bits | (v.flags() & flags::is_copied);
        return detail::make_raw<DLManagedTensorVersioned>(std::move(tensor), [v](auto&) { return v; }, d.to, bits, d.stamp, api, where);
    };
    return detail::trusted::adopt(
        detail::fulfil<DLManagedTensorVersioned, managed_tensor>(d, v, ready_on, b, share_as, api, where));
}

/// Lends an array for the length of a call: no allocation, no ownership. Temporaries do not compile.
/// \throws error  what `validate` finds in the view
template <class Array>
[[nodiscard]] borrowed_tensor borrow(Array& array, std::source_location where = std::source_location::current()) {
    static_assert(detail::is_adapted<Array>());
    return borrowed_tensor{view_of(array), where};
}
template <class Array>
    requires(!std::is_lvalue_reference_v<Array>)
void borrow(Array&&) FERRY_DELETED("the temporary dies before the callee is done: keep it in a variable, or move it into to_dlpack");

}  // namespace ferry
