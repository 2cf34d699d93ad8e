// ferry: imports: whatever produces a tensor, as the consumer's own type.
#pragma once

#include <ferry/exchange/consumer.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/tensor/legacy.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {
namespace detail {

/// What is left to do once a producer has answered: it may have ignored `copy` and `device`, which then are the
/// consumer's debts (R56, R58). `ready` says where the tensor is ready now.
template <class Consumer, class BackEnd>
[[nodiscard]] managed_tensor copy_if_needed(managed_tensor&& got, request req, stream_token ready, BackEnd& b,
                                          std::source_location where) {
    if (!got) return ferry::to_dlpack(std::move(got), req, b, ready, where);  // which says so
    require_lanes<Consumer>(got.view(), where);                                // before anything is copied
    req.max_version = version::current;  // said to the producer; between here and adopt nothing is legacy
    // mutant: r12_copied_already
    if (req.copy == copy_policy::always && got.is_copied()) req.copy = copy_policy::if_needed;
    tensor_view const v = got.view();
    auto facts = properties_of(v, ready, true);
    // mutant: r13_padded_consumer
    facts.is_describable = accepts_padded<Consumer> || !v.is_padded() || !is_packed(v.dtype());
    auto d = negotiate(facts, req);
    if (d.act == action::share) return ferry::to_dlpack(std::move(got), req, b, ready, where);
    if (!accepts_padded<Consumer>) d.bits &= ~flags::subbyte_padded;
    auto const never_shares = []() -> DLManagedTensorVersioned* { return nullptr; };
    auto* const raw =
        execute<DLManagedTensorVersioned, Consumer>(d, v, ready, b, never_shares, "ferry::from_dlpack", where, &got);
    managed_tensor const spent{std::move(got)};  // copied, and nobody reads it any more
    return trusted::adopt(raw);
}

/// Where a tensor is ready after a handshake: on the stream that the request named, else on the default stream (R44); a
/// producer without one has synchronised (R49), as it always has for the host (R48). A stream of another family went to
/// a producer that ignored the wanted device, and told it nothing; a default stream told it which one of its own.
[[nodiscard]] constexpr stream_token ready_after(request const& asked, device where) noexcept {
    bool const told =
        asked.stream.is_no_sync() || (asked.stream.names_stream() && orders(asked.stream.family(), where.type));
    // mutant: ready_after_default, ready_after_number
    stream_token const on = told ? asked.stream.without_device() : default_stream(where);
    return on.names_stream() ? on : already_ready;  // mutant: ready_after
}

/// Where data is ready at the end of an import, on memory of `where`: on the stream that `req` names, which was
/// ordered after the producer's, else on the default stream, else the host has waited. With no_sync nothing was
/// ordered, and the data is ready where it was ready before.
[[nodiscard]] constexpr stream_token ready_for(request const& req, stream_token before, device where) noexcept {
    if (!req.stream.is_no_sync()) return ready_after(req, where).on_device(where);
    // mutant: ready_for_no_sync
    return before.names_stream() && orders(before.family(), where.type) ? before : already_ready;
}

/// Settles what is left of `req` for a tensor that is ready on `ready`, and hands it to its consumer.
template <class Consumer, class BackEnd>
[[nodiscard]] Consumer finish_import(managed_tensor&& got, request const& req, stream_token ready, BackEnd& b,
                                     std::source_location where) {
    if constexpr (adopts_with_stream<Consumer>) {
        stream_token const before = got ? ready.on_device(got.device()) : ready;
        auto settled = copy_if_needed<Consumer>(std::move(got), req, ready, b, where);
        stream_token const now = ready_for(req, before, settled.device());
        return consume<Consumer>(std::move(settled), now, where);
    } else {
        return consume<Consumer>(copy_if_needed<Consumer>(std::move(got), req, ready, b, where), {}, where);
    }
}

/// The same after a handshake.
template <class Consumer, class BackEnd>
[[nodiscard]] managed_tensor copy_if_needed(managed_tensor&& got, request const& req, BackEnd& b,
                                          std::source_location where) {
    auto const ready = ready_after(req, got.device());
    return copy_if_needed<Consumer>(std::move(got), req, ready, b, where);
}

}  // namespace detail

/// Imports a tensor without a producer behind it: nobody can be asked, so `ready_on` says where it is ready now, and
/// must for memory off the host (ferry::already_ready when nothing is pending).
///
/// Consumes `tensor` on success; on failure before adopt it is still the caller's.
/// \throws error  as below
template <class Consumer, class BackEnd>
[[nodiscard]] Consumer from_dlpack(managed_tensor&& tensor, request const& asked, BackEnd&& b, stream_token ready_on,
                                   std::source_location where = std::source_location::current()) {
    auto const req = detail::with_stream<Consumer>(asked, tensor.device());
    return detail::finish_import<Consumer>(std::move(tensor), req, ready_on, b, where);
}

/// Imports a tensor from any producer under a request: asks it for what the request says, makes up for what it does not
/// honour, validates what comes, and gives it to array_traits<Consumer>::adopt (R43, R48, R53, R56–R58).
///
/// Arrays come in as to_dlpack takes them (lvalues are shared, rvalues moved); raw structs and exporters are taken
/// over, and released exactly once whatever fails; a raw struct off the host needs the overload that says where it is
/// ready. The result is flagged is_copied when anybody copied. Synchronises as the request says: nothing blocks when it
/// names a stream; with device = cpu the data is there on return.
///
/// \throws error  as from_dlpack(raw) and to_dlpack;  what an exporter or adopt throws;  std::bad_alloc
template <class Consumer, class Producer, class BackEnd = host_back_end const&>
[[nodiscard]] Consumer from_dlpack(Producer&& from, request const& asked, BackEnd&& b = host_only,
                                   std::source_location where = std::source_location::current()) {
    using P = std::remove_cvref_t<Producer>;
    static_assert(detail::is_consumer<Consumer>());
    static_assert(back_end<std::remove_reference_t<BackEnd>>,
                  "ferry: this is no back end: see ferry::back_end in ferry/space/back_end.hpp");
    if constexpr (std::same_as<P, managed_tensor>) {
        static_assert(!std::is_lvalue_reference_v<Producer>, "ferry: a managed_tensor has one owner: move it in");
        return from_dlpack<Consumer>(std::move(from), asked, b, stream_token{}, where);
    } else if constexpr (std::is_pointer_v<P>) {
        auto const take = [&] {
            if constexpr (std::same_as<P, DLManagedTensor*>) return from_dlpack(from, flags::read_only, where);
            else return from_dlpack(from, where);  // mutant: r58_stale_error_place
        };
        return from_dlpack<Consumer>(take(), asked, b, stream_token{}, where);
    } else if constexpr (exporter<std::remove_reference_t<Producer>>) {
        // Asked for host memory, whoever does not honour that must not take -1 for leave to hand out unfinished data
        // (R48).
        request req = asked;
        // mutant: no_sync_for_the_host
        if (req.device && req.device->type == device_type::cpu && req.stream.is_no_sync()) req.stream = {};
        if (req.device) req = detail::with_stream<Consumer>(req, *req.device);
        managed_tensor got = from.ferry_export(req);
        auto const ready = detail::ready_after(req, got.device());
        req = detail::with_stream<Consumer>(req, got.device());  // mutant: current_stream_of_exporter
        return detail::finish_import<Consumer>(std::move(got), req, ready, b, where);
    } else if constexpr (detail::is_adapted<std::remove_reference_t<Producer>>()) {
        device const place = view_of(from).device();
        auto const req = detail::with_stream<Consumer>(asked, place);
        stream_token before{};
        if constexpr (adopts_with_stream<Consumer>) before = detail::ready_on(from).on_device(place);
        managed_tensor got = ferry::to_dlpack(std::forward<Producer>(from), req, b, where);
        if constexpr (!accepts_padded<Consumer>)  // R13
            if (got.view().is_padded()) got = detail::copy_if_needed<Consumer>(std::move(got), req, b, where);
        auto const now = detail::ready_for(req, before, got.device());
        return detail::consume<Consumer>(std::move(got), now, where);
    }
}

/// As above with the request left at its defaults: share when possible, where it is.
template <class Consumer, class Producer>
[[nodiscard]] Consumer from_dlpack(Producer&& from, call_site where = std::source_location::current()) {
    return from_dlpack<Consumer>(std::forward<Producer>(from), request{}, host_only, where.location);
}

}  // namespace ferry::inline v0
