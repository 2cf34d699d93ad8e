// ferry: decides whether to share, copy or refuse, whether a stream or the host waits, and the version and flags of the
// result. All decisions of an exchange are made here, by a pure function (D6).
#pragma once

#include <ferry/base/dtype.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/config.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/tensor/detail/make_raw.hpp>

namespace FERRY_NAMESPACE {

/// The properties of a producer's tensor that a decision depends on.
struct tensor_properties {
    ferry::device device = cpu;  ///< device of the data
    flags bits = flags::none;    ///< flags; all but read_only and subbyte_padded are ignored
    data_type type{};            ///< data type
    /// The stream of pending work, already_ready, or none if the stream is unknown. Ignored for devices of type cpu, on
    /// which no work is pending.
    stream_token ready_on{};
    bool is_shareable = true;  ///< whether the owner can be moved or shared
    /// Whether an event, instead of a stream, indicates when the data is ready; `ready_on` is then none. A decision to
    /// wait names the stream that waits for the event, or none if the host waits.
    bool is_behind_event = false;
    /// Whether read-only data is shared with legacy consumers, whose struct has no read-only flag (R15).
    bool lends_read_only = false;
    /// Whether DLPack can describe the layout and the consumer supports it. DLPack cannot describe packed data that
    /// begins within a byte (R21); some consumers do not support padded sub-byte elements (R13).
    bool is_describable = true;
    /// Device of the space of the back end (`destination`); std::nullopt without a space. Ignored for placement::any.
    std::optional<ferry::device> space{};
    /// Whether the space contains the tensor. Ignored for placement::any.
    bool is_in_space = false;
};

/// The outcome of an exchange: the same memory, new memory, or an error.
enum class action : std::uint8_t { share, copy, refuse };

/// The wait that an exchange performs before the consumer may use the data.
enum class wait : std::uint8_t {
    none,   ///< no wait
    order,  ///< the consumer's stream waits for the producer's; the host does not block
    host,   ///< the host waits: the data is complete when the exchange returns
};

/// The decision about an exchange.
struct decision {
    ferry::action action = ferry::action::share;  ///< share, copy or refuse
    device to = cpu;                              ///< device of the result
    ferry::wait wait = ferry::wait::none;         ///< wait to perform
    /// For a share, the stream that waits, or for which the host waits. For a copy, the stream on which the copy is
    /// queued, or none for a synchronous copy.
    stream_token on{};
    version stamp{};             ///< version of the result; version::legacy denotes the unversioned struct (R57)
    flags bits = flags::none;    ///< flags of the result
    errc reason = errc::ok;      ///< error code of a refusal
    char const* text = nullptr;  ///< error text of a refusal, with the fix
    ferry::layout layout = ferry::layout::strided;  ///< layout of a copy; see `request`
    /// For placement::exact, the memory of a copy comes from the space, not from array_traits<T>::allocate.
    ferry::placement placement = ferry::placement::any;

    friend constexpr bool operator==(decision const&, decision const&) = default;
};

namespace detail {

[[nodiscard]] constexpr decision refuse(errc reason, sentence text) noexcept {
    decision d;
    d.action = action::refuse;
    d.reason = reason;
    d.text = text;
    return d;
}

/// Returns the stream for a request without a stream: the default stream of CUDA and ROCm devices (R44, R45), none for
/// other devices; the host then waits for work on pinned and managed memory (R49).
[[nodiscard]] constexpr stream_token default_stream(device dev) noexcept {
    if (dev.type == device_type::cuda) return stream_token::cuda_legacy_default(dev.id);
    if (dev.type == device_type::rocm) return stream_token::rocm_default(dev.id);
    return {};
}

/// Returns whether the data must be complete on return because the consumer has no stream to order (R48, R49).
[[nodiscard]] constexpr bool is_synchronous(device to, stream_token consumer) noexcept {
    return !uses_streams(to.type) || (!consumer.names_stream() && !consumer.is_no_sync());
}

/// Returns the flags to export: those of the tensor, without read_only if its owner shares read-only data with legacy
/// consumers and the struct is legacy (R15).
[[nodiscard]] constexpr flags flags_to_export(flags bits, bool lends_read_only, version max) noexcept {
    return lends_read_only && max.is_legacy() ? bits & ~flags::read_only : bits;
}

/// Returns the request to pass to a producer, without no_sync if the requested device is the CPU: a producer that
/// ignores the device would otherwise return incomplete data (R48). Without the placement, because ferry makes the copy
/// into a space.
[[nodiscard]] constexpr request for_producer(request req) noexcept {
    if (req.device && !uses_streams(req.device->type) && req.stream.is_no_sync()) req.stream = {};
    if (req.placement == placement::exact && req.copy == copy_policy::always) req.copy = copy_policy::if_needed;
    req.placement = placement::any;
    return req;
}

}  // namespace detail

/// Decides how to perform an exchange (R4, R11–R13, R15, R21, R40, R43–R46, R48, R49, R53–R55, R57).
///
/// A pure function of its arguments. Errors are returned as action::refuse. Always inlined, so that the compiler
/// evaluates the decision for constant requests.
///
/// \param props  properties of the producer's tensor
/// \param req    request of the consumer
/// \return       decision
[[nodiscard]] FERRY_ALWAYS_INLINE constexpr decision negotiate(tensor_properties const& props,
                                                               request const& req) noexcept {
    using detail::refuse;
    bool const legacy = req.max_version.is_legacy();
    flags const bits = detail::flags_to_export(props.bits, props.lends_read_only, req.max_version);

    decision d;
    d.to = req.device ? *req.device : props.device;  // GCC 12 warns of uninitialised members in value_or
    if (ignores_id(d.to.type)) d.to.id = 0;          // R35
    if (!is_known(d.to.type) || d.to.id < 0)
        return refuse(
            errc::device,
            req.device
                ? "the requested device is not one that DLPack defines: request a device type "
                  "of DLPack, with an id of 0 or greater (R34)"
                : "the device of the array is not one that DLPack defines: correct the device in the adapter (R34)");

    bool is_misplaced = false;
    if (req.placement == placement::exact) [[unlikely]] {
        if (!props.space)
            return refuse(
                errc::argument,
                "placement::exact needs a memory space: pass ferry::destination{space, back_end} as the back end");
        if (!detail::is_reachable_as(*props.space, d.to))
            return refuse(errc::device,
                          "the space of the destination is on another device than the request: request the device of "
                          "the space, or pass a space of the requested device");
        is_misplaced = !props.is_in_space;
    }

    // The stream belongs to the target device (R48).
    if (req.stream.is_ambiguous())
        return refuse(errc::stream,
                      "the stream is a null handle: pass the legacy default or the per-thread default stream (R44)");
    if (!fits(req.stream, d.to.type))
        return refuse(errc::stream, !uses_streams(d.to.type)
                                        ? "CPU memory has no streams: omit the stream (R46, R48)"
                                        : "the stream belongs to a different type of device than the target: pass a "
                                          "stream of the target device (R43–R45)");

    if (req.stream.is_default_of_other(d.to))
        return refuse(
            errc::stream,
            "stream of another device: the request names the default stream of a device other than the target: pass a "
            "stream of the target device, or omit the device of the stream (R48)");

    // Share or copy (R53).
    bool const fresh = req.copy == copy_policy::always || is_misplaced;
    bool const reachable = detail::is_reachable_as(props.device, d.to);
    bool const needs_flags = legacy && lost_in_legacy(bits) != flags::none;
    if (fresh || !reachable || needs_flags || !props.is_describable || !props.is_shareable) {
        if (req.copy == copy_policy::never) {
            if (!reachable)
                return refuse(errc::copy_needed,
                              "the data is on another device, and the request forbids a copy (copy=False): permit a "
                              "copy, or request the device of the data (R53, R54)");
            if (!props.is_describable)
                return refuse(
                    errc::copy_needed,
                    "DLPack or the consumer does not support the packing of the elements, and the request forbids a "
                    "copy (copy=False): permit a copy (R13, R21)");
            if (needs_flags)
                return refuse(
                    errc::copy_needed,
                    "the legacy struct has no flags for read-only or padded data, and the request forbids a copy "
                    "(copy=False): request max_version=(1, 0) (R15)");
            if (is_misplaced)
                return refuse(errc::copy_needed,
                              "the space of the destination does not contain the data, and the request forbids a copy "
                              "(copy=False): permit a copy, allocate the data from the space, or request "
                              "placement::any");
            return refuse(errc::not_shareable,
                          "the array does not own its elements, or its owner cannot be shared, and the request forbids "
                          "a copy: pass std::move(array), call borrow(), add array_traits::share or "
                          "array_traits::owns, or request a copy");
        }
        d.action = action::copy;
        d.layout = req.layout;
        d.placement = req.placement;
    }

    // The wait (R43, R48, R49).
    bool const pending = uses_streams(props.device.type) && !props.ready_on.is_no_sync();
    if (pending || d.action == action::copy) {
        stream_token const ready = pending ? props.ready_on.bound_to(props.device) : already_ready;
        stream_token const consumer = req.stream.is_none() ? detail::default_stream(d.to) : req.stream.bound_to(d.to);
        // Nothing keeps the source of such a copy alive, and the caller has no stream to wait for.
        bool const lent = d.action == action::copy && props.device.type != device_type::cpu && !props.is_shareable &&
                          req.stream.is_none();
        bool const synchronous = lent || detail::is_synchronous(d.to, consumer);
        bool const unordered = consumer.is_no_sync() && !synchronous;
        if (d.action == action::share) {
            if (pending && synchronous) d.wait = wait::host;
            else if (pending && !unordered && ready != consumer) d.wait = wait::order;
            if (d.wait != wait::none) d.on = synchronous ? ready : consumer;
        } else {
            bool const off_host = props.device.type != device_type::cpu || d.to.type != device_type::cpu;
            if (off_host) d.on = synchronous || unordered ? ready : consumer;
            if (!d.on.names_stream()) d.on = {};  // no stream to queue on: the copy is synchronous
            bool const is_queued = d.on.names_stream();
            if (props.is_behind_event ? pending && !is_queued : synchronous && is_queued) d.wait = wait::host;
            else if (pending && !synchronous && ready != d.on) d.wait = wait::order;
        }
        if (pending && (d.wait != wait::none || d.action == action::copy)) {
            if (!ready.names_stream() && !props.is_behind_event)
                return refuse(errc::stream,
                              "the stream on which the data is ready is unknown: pass a managed_tensor (for a raw "
                              "struct, from_dlpack(raw)) with a back end and either that stream or "
                              "ferry::already_ready, or add array_traits::ready_on (R43)");
            if (ready.is_ambiguous())
                return refuse(errc::stream,
                              "the data is ready on a null stream: pass the legacy default or the per-thread default "
                              "stream (R44)");
            if (!fits(ready, props.device.type))
                return refuse(errc::stream,
                              "the stream on which the data is ready belongs to a different type of device than the "
                              "data: pass a stream of the device of the data (R43–R45)");
            if (ready.is_default_of_other(props.device))
                return refuse(errc::stream,
                              "stream of another device: the data is ready on the default stream of a device that "
                              "does not hold it: pass a stream of the device of the data, ordered after that default "
                              "stream (R43)");
        }
    }

    // Flags and version of the result (R4, R11–R13, R57).
    d.bits = bits & flags::subbyte_padded;
    if (d.action == action::copy) d.bits = (legacy ? flags::none : d.bits) | flags::is_copied;
    else d.bits |= bits & flags::read_only;
    d.stamp = legacy ? version::legacy : detail::stamp_for(props.type, d.bits, req.max_version);
    return d;
}

}  // namespace FERRY_NAMESPACE
