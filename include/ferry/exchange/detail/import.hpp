// ferry: implements imports; from_dlpack.hpp declares the public functions.
#pragma once

#include <ferry/exchange/detail/export.hpp>
#include <ferry/tensor/detail/ordinary.hpp>

namespace FERRY_NAMESPACE::detail {

/// Implements `take` for a struct that is null, not ordinary or not compact. `IsOrdinary`: is_ordinary_struct is true;
/// not a function argument, which would be computed on the fast path.
template <bool IsOrdinary>
[[nodiscard]] FERRY_NOINLINE managed_tensor take_other(DLManagedTensorVersioned* raw, reporter r) {
    raw_owner owner{raw};
    bool const is_valid = raw == nullptr
                              ? report(r, errc::null_struct, "the DLManagedTensorVersioned* is null: pass a struct")
                          : IsOrdinary ? check_other(raw->dl_tensor, true, known(flags{raw->flags}), r)
                                       : check_managed<true>(raw, r);
    return is_valid ? trusted::adopt(owner.release()) : managed_tensor{};
}
/// Implements from_dlpack and try_from_dlpack for a struct, which it owns; returns an empty object on failure.
/// `ByCall`: see check_tensor_by_call.
template <bool ByCall = false>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor take(DLManagedTensorVersioned* raw, reporter r) {
    if (ByCall || raw == nullptr || !is_ordinary_struct(raw)) return take_other<false>(raw, r);
    return is_compact(raw->dl_tensor) ? trusted::adopt(raw) : take_other<true>(raw, r);
}
template <bool ByCall = false>
[[nodiscard]] inline managed_tensor take(DLManagedTensor* raw, reporter r, flags assumed = flags::read_only) {
    raw_owner owner{raw};
    auto const check = ByCall ? check_tensor_by_call : check_tensor;
    bool const is_valid = raw != nullptr ? check(raw->dl_tensor, assumed, r)
                                         : report(r, errc::null_struct, "the DLManagedTensor* is null: pass a struct");
    if (!is_valid) return {};
    tensor_view const v{raw->dl_tensor, assumed};
    return trusted::adopt(make_valid_raw<DLManagedTensorVersioned, ByCall>(std::move(owner), fixed_view{v}, v,
                                                                           v.device(), assumed, version::current, r));
}

/// Returns the part of a request that remains after its producer returned `got`: a copy that the producer made for the
/// request is not copied again (R12), unless the request requires another order.
[[nodiscard]] inline request remaining(request req, managed_tensor const& got) noexcept {
    bool const is_copied_already =
        got.is_copied() && (req.layout == layout::strided || trusted::view(got).is_contiguous());
    if (req.copy == copy_policy::always && is_copied_already) req.copy = copy_policy::if_needed;
    return req;
}

/// Carries out the part of a request that the producer ignored: `copy` and `device` (R56, R58). The data is ready on
/// the stream `ready`. On failure, returns an empty object, and `got` is unchanged.
template <class Consumer, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor copy_as_requested(managed_tensor&& got, request req,
                                                                   stream_token ready, BackEnd& b, reporter r,
                                                                   accepted_elements accepted) {
    if (!check_not_empty(got, r) || !check_lanes(trusted::view(got), accepted, r)) return {};
    req.max_version = version::current;  // applies to the producer only: `adopt` takes a versioned tensor
    auto const d = decide<Consumer, managed_tensor, calls_functions<BackEnd>>(trusted::view(got), ready, true, req, b,
                                                                              accepted.padded);
    return execute_owned<Consumer>(std::move(got), d, ready, b, r);
}
template <class Consumer, class BackEnd>
[[nodiscard]] managed_tensor copy_if_needed(managed_tensor&& got, request const& req, stream_token ready, BackEnd& b,
                                            reporter r, accepted_elements accepted) {
    return copy_as_requested<Consumer>(std::move(got), req, ready, b, r, accepted);
}
template <class Consumer, calls_functions BackEnd>
[[nodiscard]] FERRY_COLD managed_tensor copy_if_needed(managed_tensor&& got, request const& req, stream_token ready,
                                                       BackEnd& b, reporter r, accepted_elements accepted) {
    return copy_as_requested<Consumer>(std::move(got), req, ready, b, r, accepted);
}

/// Returns the stream on which a tensor on `dev` is ready after a handshake: the stream of the request, else the
/// default stream (R44). Returns already_ready for no_sync, and for devices without a default stream, where the
/// producer has synchronised (R48, R49).
///
/// A producer that ignored the requested device cannot have used a stream of another family. It has interpreted a
/// default stream as the default stream of its own device.
[[nodiscard]] constexpr stream_token ready_after(request const& req, device dev) noexcept {
    bool const is_used =
        req.stream.is_no_sync() || (req.stream.names_stream() && orders(req.stream.family(), dev.type));
    stream_token const on = is_used ? req.stream.without_device() : default_stream(dev);
    return on.names_stream() ? on : already_ready;
}

/// Returns the stream on which data on `dev` is ready at the end of an import: the stream of the request, which was
/// ordered after the producer's, else the default stream; already_ready if the host has waited. With no_sync, no stream
/// was ordered, and the data is ready on `before`.
[[nodiscard]] constexpr stream_token ready_for(request const& req, stream_token before, device dev) noexcept {
    if (!req.stream.is_no_sync()) return ready_after(req, dev).on_device(dev);
    return before.names_stream() && orders(before.family(), dev.type) ? before : already_ready;
}

/// Carries out the rest of `req` for a tensor that is ready on `ready`, and sets `ready` to the stream on which the
/// result is ready. On failure, returns an empty object, and `got` is unchanged. `SetsReady`: whether `ready` is used.
template <class Consumer, bool SetsReady = adopts_with_stream<Consumer>, class BackEnd>
[[nodiscard]] managed_tensor finish_import(managed_tensor&& got, request const& req, stream_token& ready, BackEnd& b,
                                           reporter r, accepted_elements accepted = accepted_by<Consumer>) {
    stream_token const before = ready.on_device(got.device());
    auto result = copy_if_needed<Consumer>(std::move(got), req, ready, b, r, accepted);
    if constexpr (SetsReady)
        if (result) ready = ready_for(req, before, result.device());
    return result;
}

/// Implements from_dlpack and try_from_dlpack, except for the call of `adopt`; returns an empty object on failure.
/// `ready` is the stream on which a managed_tensor is ready; it is set to the stream on which the result is ready.
template <class Consumer, class Producer, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE managed_tensor import_from(Producer&& from, request const& req, BackEnd& b,
                                                             stream_token& ready, reporter r) {
    using P = std::remove_cvref_t<Producer>;
    if constexpr (std::same_as<P, managed_tensor>) {
        return finish_import<Consumer>(std::move(from), with_stream<Consumer>(req, from.device()), ready, b, r);
    } else if constexpr (std::is_pointer_v<P>) {
        managed_tensor taken = take(from, r);
        if (!taken) return {};
        return import_from<Consumer>(std::move(taken), req, b, ready, r);
    } else if constexpr (exporter<std::remove_reference_t<Producer>>) {
        request asked = for_producer(req);
        if (asked.device) asked = with_stream<Consumer>(asked, *asked.device);
        auto exported = from.ferry_export(asked);
        if (!check_result(exported, r)) return {};
        managed_tensor& got = unwrapped(exported);
        ready = ready_after(asked, got.device());
        asked = with_stream<Consumer>(asked, got.device());
        asked.copy = req.copy, asked.placement = req.placement;
        return finish_import<Consumer>(std::move(got), remaining(asked, got), ready, b, r);
    } else if constexpr (is_adapted<std::remove_reference_t<Producer>>()) {
        auto const described = describe(from);
        if (!check_result(described, r)) return {};
        tensor_view const& v = unwrapped(described);
        device const dev = v.device();
        // A copy of an array that cannot be shared is complete on return if the caller named no stream.
        bool can_share = false;
        if (!check_shareable<Producer>(from, v, can_share, r)) return {};
        auto const complete = can_share ? with_stream<Consumer>(req, dev) : req;
        auto const before = detail::ready_on(from);
        auto got = export_for<Consumer>(std::forward<Producer>(from), v, can_share, complete, before, b, r);
        if (got) ready = ready_for(complete, before.on_device(dev), got.device());
        return got;
    }
}

/// Returns the back end of an import for which the caller passed none. Only an array that cannot be shared is copied.
template <class Producer>
[[nodiscard]] constexpr auto& default_back_end() noexcept {
    if constexpr (viewable<std::remove_reference_t<Producer>>) return host_only;
    else return share_only;
}

/// Implements try_from_dlpack for a consumer.
template <class Consumer, class Producer, class BackEnd>
[[nodiscard]] result<Consumer> try_import_as(Producer&& from, request const& req, BackEnd& b, stream_token ready,
                                             std::source_location where) {
    if constexpr (is_consumer<Consumer>())
        return attempt<Consumer>("ferry::from_dlpack", where, [&](record& to) -> result<Consumer> {
            auto got = import_from<Consumer>(std::forward<Producer>(from), req, b, ready, to);
            if (!got) return to.outcome.error();
            return adopt<Consumer>(std::move(got), ready);
        });
}

#if FERRY_HAS_EXCEPTIONS
/// Implements from_dlpack for a consumer.
template <class Consumer, class Producer, class BackEnd>
[[nodiscard]] FERRY_ALWAYS_INLINE Consumer import_as(Producer&& from, request const& req, BackEnd& b,
                                                     stream_token ready, std::source_location where) {
    if constexpr (is_consumer<Consumer>()) {
        auto got = import_from<Consumer>(std::forward<Producer>(from), req, b, ready, {"ferry::from_dlpack", where});
        return consume<Consumer>(std::move(got), ready);
    }
}
#endif

}  // namespace FERRY_NAMESPACE::detail
