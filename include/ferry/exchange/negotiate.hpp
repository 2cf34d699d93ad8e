// ferry: share, copy or refuse; who waits for whom; which version and flags. The whole policy of an exchange, as a pure
// function: nothing of it is decided anywhere else (D6).
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <cstdint>

namespace ferry::inline v0 {

/// Nothing is pending on the data: any stream, and the host, may use it now. For tensors off the host that nobody
/// writes.
inline constexpr stream_token already_ready = stream_token::no_sync();

/// What a producer knows of its tensor.
struct tensor_properties {
    device where = cpu;
    flags bits = flags::none;  ///< read_only and subbyte_padded count here
    data_type type{};
    /// The stream on which pending work runs, or already_ready; none when the producer cannot say. On the host nothing
    /// is ever pending.
    stream_token ready_on{};
    bool is_shareable = true;  ///< the owner can be moved in, or shared
    /// The layout can be handed over: DLPack has words for it (R21: packed data may begin within a byte) and the
    /// consumer takes it (R13: padded sub-byte elements).
    bool is_describable = true;
};

/// What becomes of an exchange: the same memory, other memory, or an error.
enum class action : std::uint8_t { share, copy, refuse };

/// Who waits before the consumer may use the data.
enum class wait : std::uint8_t {
    none,   ///< nobody
    order,  ///< the consumer's stream waits for the producer's; the host goes on
    host,   ///< the host waits: the data is there when the exchange returns
};

/// What is to be done, in full.
struct decision {
    action act = action::share;
    device to = cpu;  ///< the device that the result names
    wait how = wait::none;
    /// The consumer's stream for wait::order; where a copy is queued (none: copy synchronously)
    stream_token on{};
    version stamp{};  ///< version::legacy: the unversioned struct (R57)
    flags bits = flags::none;
    errc reason = errc::ok;      ///< of a refusal
    char const* text = nullptr;  ///< of a refusal: what is wrong, and what to do

    friend constexpr bool operator==(decision const&, decision const&) = default;
};

namespace detail {

[[nodiscard]] constexpr decision refuse(errc reason, char const* text) noexcept {
    decision d;
    d.act = action::refuse;
    d.reason = reason;
    d.text = text;
    return d;
}

/// The stream that a consumer means by saying nothing: the default stream where the rules name one (R44, R45), none
/// elsewhere; pinned and managed memory then is synchronised on the host (R49).
[[nodiscard]] constexpr stream_token default_stream(device where) noexcept {
    // mutant: r44_default_stream
    if (where.type == device_type::cuda) return stream_token::cuda_legacy_default(where.id);
    if (where.type == device_type::rocm) return stream_token::rocm_default(where.id);  // mutant: r45_default_stream
    return {};
}

/// Whether memory of `from` can be used as memory of `to` as it stands: what the host reads is CPU memory, managed
/// memory is CUDA memory (R39, R53).
[[nodiscard]] constexpr bool is_reachable_as(device from, device to) noexcept {
    // mutant: r39_host_reads
    return is_same_device(from, to) || (to.type == device_type::cpu && is_host_accessible(from)) ||
           (to.type == device_type::cuda && from.type == device_type::cuda_managed);  // mutant: r39_managed_as_cuda
}

/// R48, R49: whether the data must be there on return, because the consumer named no stream that could be ordered.
[[nodiscard]] constexpr bool is_synchronous(device to, stream_token consumer) noexcept {
    // mutant: r48_host, r49_host
    return to.type == device_type::cpu || (!consumer.names_stream() && !consumer.is_no_sync());
}

}  // namespace detail

/// Decides an exchange (R4, R11–R13, R15, R21, R40, R43–R46, R48, R49, R53–R55, R57). Reads its arguments and nothing
/// else; constexpr, no failure but a decision to refuse. Inlined, so that nothing is left of it where the request is
/// known.
[[nodiscard]] FERRY_ALWAYS_INLINE constexpr decision negotiate(tensor_properties const& facts,
                                                               request const& req) noexcept {
    using detail::refuse;
    bool const legacy = req.max_version.is_legacy();
    bool const read_only = has(facts.bits, flags::read_only);
    bool const padded = has(facts.bits, flags::subbyte_padded);

    decision d;
    d.to = req.device.value_or(facts.where);
    // mutant: r35_id
    if (ignores_id(d.to.type)) d.to.id = 0;   // R35
    if (!is_known(d.to.type) || d.to.id < 0)  // mutant: r34_device
        return refuse(errc::device, "the wanted device is not one that DLPack names (R34)");

    // The stream belongs to the target device (R48).
    if (req.stream.is_ambiguous())
        return refuse(errc::stream,
                      "the stream is a null handle: say the legacy default or the per-thread default stream (R44)");
    if (!fits(req.stream, d.to.type))  // mutant: r46_r48_stream_fits
        return refuse(errc::stream, d.to.type == device_type::cpu
                                        ? "memory of the CPU has no streams: leave the stream out (R46, R48)"
                                        : "the stream belongs to another kind of device than the data (R43–R45)");

    if (req.stream.is_default_of_other(d.to))  // mutant: r48_default_of_other
        return refuse(
            errc::stream,
            "stream of another device: the request names the default stream of one, and the data is wanted on "
            "another: pass a stream of the latter, or leave the stream's device out (R48)");

    // Share or copy (R53)?
    bool const fresh = req.copy == copy_policy::always;
    bool const reachable = detail::is_reachable_as(facts.where, d.to);
    // mutant: r13_legacy_padded, r13_r15_unspeakable
    bool const needs_flags = legacy && (read_only || padded);  // R13, R15: the legacy struct has no flags
    // mutant: r21_describable, r53_always, r53_reachable
    if (fresh || !reachable || needs_flags || !facts.is_describable) {
        if (req.copy == copy_policy::never) {  // mutant: r54_never
            if (!reachable)
                return refuse(errc::copy_needed,
                              "the data is on another device and copy=False forbids to copy it (R53, R54)");
            if (!facts.is_describable)
                return refuse(
                    errc::copy_needed,
                    "the packing of the elements cannot be handed over as it is, and copy=False forbids to copy them (R13, R21)");
            return refuse(errc::copy_needed,
                          "the legacy struct has no flags, and copy=False forbids to copy read-only or padded "
                          "data: ask for max_version=(1, 0) (R15)");
        }
        d.act = action::copy;
    } else if (!facts.is_shareable) {  // mutant: r55_shareable
        return refuse(errc::not_shareable,
                      req.copy == copy_policy::never
                          ? "the array does not own its elements, or its owner cannot be shared: move it in, or borrow()"
                          : "the array does not own its elements, or its owner cannot be shared: move it in, borrow(), "
                            "add array_traits::share or array_traits::owns, or ask for copy_policy::always");
    }

    // Who waits for whom (R43, R48, R49)?
    bool const pending = facts.where.type != device_type::cpu && !facts.ready_on.is_no_sync();
    // mutant: r43_bound_ready, r43_host_never_pending, r44_ready_of_device
    stream_token const ready = pending ? facts.ready_on.bound_to(facts.where) : already_ready;
    // mutant: r44_stream_of_device, r48_bound_consumer
    stream_token const consumer = req.stream.is_none() ? detail::default_stream(d.to) : req.stream.bound_to(d.to);
    bool const synchronous = detail::is_synchronous(d.to, consumer);
    bool const unordered = consumer.is_no_sync() && !synchronous;  // mutant: r44_no_sync
    if (d.act == action::share) {
        if (pending && synchronous) d.how = wait::host;
        else if (pending && !unordered && ready != consumer) d.how = wait::order;  // mutant: r43_equal_streams
        if (d.how != wait::none) d.on = synchronous ? ready : consumer;
    } else {
        bool const off_host = facts.where.type != device_type::cpu || d.to.type != device_type::cpu;
        if (off_host) d.on = synchronous || unordered ? ready : consumer;  // mutant: r48_on_consumer
        if (!d.on.names_stream()) d.on = {};  // nothing to queue on: the copy itself is synchronous
        if (synchronous && d.on.names_stream()) d.how = wait::host;
        else if (pending && !synchronous && ready != d.on) d.how = wait::order;
    }
    if (pending && (d.how != wait::none || d.act == action::copy)) {
        if (!ready.names_stream())  // mutant: r43_nobody_said
            return refuse(errc::stream,
                          "nobody said on which stream the data is ready: pass ready_on, add "
                          "array_traits::ready_on, or say ferry::already_ready");
        if (ready.is_ambiguous())
            return refuse(errc::stream,
                          "the data is ready on a null stream: say the legacy default or the per-thread default (R44)");
        if (!fits(ready, facts.where.type))  // mutant: r43_family
            return refuse(
                errc::stream,
                "the stream on which the data is ready belongs to another kind of device than the data (R43–R45)");
        if (ready.is_default_of_other(facts.where))  // mutant: r43_ready_of_other
            return refuse(errc::stream,
                          "stream of another device: the data is said to be ready on the default stream of one, and "
                          "lies on another: pass a stream of the latter that is ordered after it (R43)");
    }

    // What the struct says (R4, R11–R13, R57).
    d.bits = facts.bits & flags::subbyte_padded;
    // mutant: r12_is_copied, r13_copy_for_legacy
    if (d.act == action::copy) d.bits = (legacy ? flags::none : d.bits) | flags::is_copied;
    else if (read_only) d.bits |= flags::read_only;  // mutant: r11_read_only
    d.stamp = legacy ? version::legacy : detail::stamp_for(facts.type, d.bits, req.max_version);  // mutant: r57_legacy
    return d;
}

}  // namespace ferry::inline v0
