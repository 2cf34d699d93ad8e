// ferry: implements exports; to_dlpack.hpp declares the public functions.
#pragma once

#include <ferry/exchange/detail/execute.hpp>
#include <ferry/tensor/validate.hpp>

#include <typeinfo>

namespace FERRY_NAMESPACE::detail {

/// Returns the stream of pending work on the array, or none if its traits do not define `ready_on` or return an event.
template <class Array>
[[nodiscard]] stream_token ready_on([[maybe_unused]] Array const& a) {
    if constexpr (has_ready_on<Array>) return array_traits<std::remove_cv_t<Array>>::ready_on(a);
    else return {};
}

/// Carries out the wait of a decision for an array whose `ready_on` returns an event, and removes it from the decision.
/// Does nothing for other arrays. `dev`: device of the array.
template <class Array, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE bool wait_for_array([[maybe_unused]] Array const& a, [[maybe_unused]] decision& d,
                                                      [[maybe_unused]] device dev, [[maybe_unused]] BackEnd& b,
                                                      [[maybe_unused]] reporter r) {
    if constexpr (has_ready_event<Array>) {
        if (!check_decision(d, dev, b, r)) return false;
        if (d.wait == wait::none) return true;
        auto const event = array_traits<std::remove_cv_t<Array>>::ready_on(a);
        if (!perform(r, [&] { return wait_for_event(b, event, dev, d.on); })) return false;
        d.wait = wait::none;
    }
    return true;
}

/// Returns a stream on which the array is ready, for interfaces that have no events: its own stream, or else the
/// default stream of its device, which waits for the event. For a device without a default stream, the host waits.
template <class Array, class BackEnd>
[[nodiscard]] stream_token ready_stream(Array const& a, [[maybe_unused]] BackEnd& b, [[maybe_unused]] reporter r) {
    if constexpr (has_ready_event<Array>) {
        device const dev = view_of(a).device();
        if (!uses_streams(dev.type)) return already_ready;
        stream_token const on = default_stream(dev);
        auto const event = array_traits<std::remove_cv_t<Array>>::ready_on(a);
        static_cast<void>(perform(r, [&] { return wait_for_event(b, event, dev, on); }));
        return on.names_stream() ? on : already_ready;
    } else {
        return detail::ready_on(a);
    }
}

/// Sets `is_inside` to whether all elements lie within the object `a`.
template <class Array>
[[nodiscard]] bool check_inside(Array const& a, tensor_view const& v, bool& is_inside, reporter r) {
    is_inside = v.is_empty();
    if (is_inside) return true;
    byte_reach reach;
    if (!check_reach(v, reach, r)) return false;
    auto const begin = reinterpret_cast<std::uintptr_t>(&reinterpret_cast<unsigned char const&>(a));
    auto const offset = reinterpret_cast<std::uintptr_t>(v.data()) - begin;  // large when `v` starts before `a`
    is_inside = offset < sizeof a && reach.below <= offset && reach.above <= sizeof a - offset;
    return true;
}

/// Sets `can_share` to whether an export may share the array: an lvalue if array_traits<T>::share exists, an rvalue if
/// its elements remain valid after the move into a tensor (D13). Without array_traits<T>::owns, a type with a trivial
/// destructor is assumed to own only elements that lie within it.
template <class Array>
[[nodiscard]] bool check_shareable([[maybe_unused]] std::remove_reference_t<Array>& a,
                                   [[maybe_unused]] tensor_view const& v, bool& can_share,
                                   [[maybe_unused]] reporter r) {
    using T = std::remove_cvref_t<Array>;
    if constexpr (std::is_lvalue_reference_v<Array>) can_share = shareable<T>;
    else if constexpr (has_run_time_ownership<T>) can_share = v.is_empty() || array_traits<T>::owns(a);
    else if constexpr (requires { array_traits<T>::owns; }) can_share = array_traits<T>::owns;
    else if constexpr (std::is_trivially_destructible_v<T>) return check_inside(a, v, can_share, r);
    else can_share = true;
    return true;
}

/// Returns a struct that owns `handle`, the result of `share` for an array of type `Array`, with the view `v`; null on
/// failure. `ByCall`: see check_tensor_by_call.
template <managed_struct Raw, class Array, bool ByCall = false, class Handle>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* own_shared(Handle& handle, tensor_view const& v, device to, flags bits,
                                                  version max, reporter r) {
    // The handle may be read-only although the array is not.
    flags const own = flags_to_export(v.flags(), lends_read_only<std::remove_reference_t<Array>>, max);
    if (std::same_as<Raw, DLManagedTensor> && !check_legacy_flags(own, r)) return nullptr;
    bits |= own & flags::read_only;
    return make_checked_raw<Raw, ByCall>(std::move(handle), describe, v, to, bits, max, r);
}

/// Returns a struct that owns an rvalue with the view `v`, or the result of `share` for an lvalue; null on failure.
template <managed_struct Raw, class Array>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* own_raw(Array&& array, [[maybe_unused]] tensor_view const& v, device to,
                                               flags bits, version max, reporter r) {
    if constexpr (!std::is_lvalue_reference_v<Array>) {
        return make_checked_raw<Raw>(std::move(array), describe, v, to, bits, max, r);
    } else {
        auto shared = array_traits<std::remove_cvref_t<Array>>::share(array);
        if (!check_result(shared, r)) return nullptr;
        auto const described = describe(unwrapped(shared));
        if (!check_result(described, r)) return nullptr;
        return own_shared<Raw, Array>(unwrapped(shared), unwrapped(described), to, bits, max, r);
    }
}

/// Fails with errc::argument for an object of a class derived from Array, since a move would slice it and could lose
/// the elements.
template <class Array>
[[nodiscard]] bool check_not_sliced([[maybe_unused]] Array& array, [[maybe_unused]] reporter r) {
#if FERRY_HAS_RTTI
    if constexpr (std::is_polymorphic_v<Array> && !std::is_final_v<Array>)
        if (typeid(array) != typeid(Array))
            return report(
                r, errc::argument,
                "the class of the array is derived from the type of the argument, and a move would slice it: move it "
                "as its own class, add array_traits<T>::share, or pass make_managed a smart pointer to it");
#endif
    return true;
}

/// Exports an lvalue of type `Array` with the view `v` as a struct of type `Raw`, as decided; returns null on failure.
/// `Checked`: see `execute`.
/// `own(std::type_identity<S>{}, to, bits, max)` returns a struct of type S that owns the result of `share`; called at
/// most once.
template <managed_struct Raw, class Array, bool Checked = false, class Own, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* export_shared(Own own, decision const& d, tensor_view const& v,
                                                     stream_token ready, BackEnd& b, reporter r) {
    constexpr bool can_own = shareable<Array>;
    auto const share = [&]() -> Raw* {
        if constexpr (can_own) return own(std::type_identity<Raw>{}, d.to, d.bits, d.stamp);
        else return nullptr;  // not reached: negotiate decides to copy or to refuse
    };
    if constexpr (can_own && !never_copies<BackEnd>) {
        if (reads_after_return(d, v.device())) {  // the copy keeps its source alive (R50)
            if (!Checked && !check_decision(d, v.device(), b, r)) return nullptr;
            auto source = trusted::adopt(
                own(std::type_identity<DLManagedTensorVersioned>{}, v.device(), v.flags(), version::current));
            if (!source) return nullptr;
            return execute<Raw, Array, true>(d, trusted::view(source), ready, b, share, r, tensor_source{&source});
        }
    }
    return execute<Raw, Array, Checked>(d, v, ready, b, share, r);
}

/// Returns a struct that owns a moved array; null on failure. Not a lambda, because GCC does not inline it.
template <managed_struct Raw, class Array>
struct move_array {
    Array& array;
    decision const& d;
    tensor_view const& v;
    reporter r;

    [[nodiscard]] FERRY_ALWAYS_INLINE Raw* operator()() const {
        return own_raw<Raw>(std::move(array), v, d.to, d.bits, d.stamp, r);
    }
};

/// Exports an array as a struct of type `Raw`; returns null on failure.
template <managed_struct Raw, class Array, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE Raw* export_array(Array&& array, decision const& d, tensor_view const& v,
                                                    stream_token ready, BackEnd& b, reporter r) {
    using T = std::remove_cvref_t<Array>;
    if constexpr (std::is_lvalue_reference_v<Array>) {
        auto const own = [&]<class S>(std::type_identity<S>, device to, flags bits, version max) {
            return own_raw<S>(array, v, to, bits, max, r);
        };
        return export_shared<Raw, T>(own, d, v, ready, b, r);
    } else {
        if (!check_not_sliced(array, r)) return nullptr;
        return execute<Raw, T>(d, v, ready, b, move_array<Raw, T>{array, d, v, r}, r, array_source<T>{array});
    }
}

/// Exports an array with the view `v`, ready on `ready`, for a request and a consumer; returns an empty object on
/// failure. `can_share`: the output of `check_shareable`. Always inlined, so that the compiler evaluates the decision
/// for constant requests.
template <class Consumer, class Array, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor export_for(Array&& array, tensor_view const& v, bool can_share,
                                                            request const& req, stream_token ready, BackEnd& b,
                                                            reporter r) {
    if (!check_lanes(v, accepted_by<Consumer>, r)) return {};
    auto d = decide<Consumer, std::remove_reference_t<Array>>(v, ready, can_share, req, b);
    if (!wait_for_array(array, d, v.device(), b, r)) return {};
    return trusted::adopt(export_array<DLManagedTensorVersioned>(std::forward<Array>(array), d, v, ready, b, r));
}

/// Implements to_dlpack and try_to_dlpack for arrays; returns an empty object on failure.
template <class Array, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor export_tensor(Array&& array, request const& req, BackEnd& b,
                                                               reporter r) {
    if constexpr (is_adapted<std::remove_reference_t<Array>>()) {
        auto const described = describe(array);  // first: reports an array that cannot be exported
        if (!check_result(described, r)) return {};
        tensor_view const& v = unwrapped(described);
        bool can_share = false;
        if (!check_shareable<Array>(array, v, can_share, r)) return {};
        return export_for<managed_tensor>(std::forward<Array>(array), v, can_share, req, detail::ready_on(array), b, r);
    }
}

/// Like `export_tensor`, for a request that never copies.
template <class Array>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor share_tensor(Array&& array, reporter r) {
    return export_tensor(std::forward<Array>(array), request{.copy = copy_policy::never}, share_only, r);
}

/// A tensor without an adapter: a managed_tensor, or a view, whose elements belong to another object.
template <class T>
concept bare_tensor =
    std::derived_from<std::remove_cvref_t<T>, managed_tensor> || std::derived_from<std::remove_cvref_t<T>, tensor_view>;

FERRY_COLD inline void report_never(char const* text, reporter r) {
    static_cast<void>(report(r, errc::not_shareable, text));
}

/// Implements to_dlpack and try_to_dlpack for tensors: exports an rvalue, and copies a tensor that the caller keeps, or
/// a view. On failure, returns an empty object, and `tensor` is unchanged.
template <bare_tensor Tensor, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor export_tensor(Tensor&& tensor, request const& req, BackEnd& b,
                                                               stream_token ready_on, reporter r) {
    constexpr bool is_managed = std::derived_from<std::remove_cvref_t<Tensor>, managed_tensor>;
    if constexpr (is_managed)
        if (!check_not_empty(tensor, r)) return {};
    if constexpr (std::same_as<Tensor, managed_tensor>) {
        auto const d = decide<managed_tensor>(trusted::view(tensor), ready_on, true, req, b);
        return execute_owned<managed_tensor>(std::move(tensor), d, ready_on, b, r);
    } else {
        constexpr auto never =
            is_managed
                ? "a managed_tensor has one owner and cannot be shared, and copy_policy::never does not allow a copy: "
                  "pass std::move(tensor), call borrow(), or request a copy"
                : "a view owns no memory that a tensor could share, and copy_policy::never does not allow a copy: "
                  "export its owner, call borrow(), or request a copy";
        if (req.copy == copy_policy::never) return report_never(never, r), managed_tensor{};
        auto const copy = [&](tensor_view const& view) {
            auto const d = decide<managed_tensor>(view, ready_on, false, req, b);
            auto const never_shares = []() -> DLManagedTensorVersioned* { return nullptr; };
            return trusted::adopt(
                execute<DLManagedTensorVersioned, managed_tensor>(d, view, ready_on, b, never_shares, r));
        };
        if constexpr (is_managed) return copy(trusted::view(tensor));
        else return copy(tensor);
    }
}

}  // namespace FERRY_NAMESPACE::detail
