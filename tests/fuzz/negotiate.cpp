// The policy of an exchange with arbitrary properties and requests (R4, R11–R13, R15, R21, R39, R43–R49, R53–R57): results
// that the rules forbid do not occur, and related requests have related results.
#include "bytes.hpp"

#include <ferry/exchange/negotiate.hpp>

#include <cstdint>
#include <cstring>

namespace {

using ferry::action;
using ferry::copy_policy;
using ferry::device_type;
using ferry::flags;
using ferry::stream_token;
using ferry::wait;

/// Mostly known devices, in particular those with streams.
ferry::device read_device(fuzz::bytes& in) {
    constexpr std::int32_t often[] = {1, 2, 3, 10, 11, 12, 13};
    auto const which = in.take<std::uint8_t>();
    auto const type = which < 196 ? often[which % 7] : which < 250 ? which % 24 : in.take<std::int32_t>();
    auto const id = in.take<std::int8_t>();
    return {static_cast<device_type>(type), id < -120 || id > 2 ? id % 3 : 0};
}

stream_token read_stream(fuzz::bytes& in) {
    switch (in.below(9)) {
        case 0:
        case 1: return {};
        case 2: return stream_token::no_sync();
        case 3: return stream_token::cuda_legacy_default();
        case 4: return stream_token::cuda_per_thread_default();
        case 5: return stream_token::from_cuda_handle(in.below(5) * 16);
        case 6: return stream_token::rocm_default();
        case 7: return stream_token::rocm_handle(in.below(3) * 16);
        default: return stream_token::native(static_cast<device_type>(in.below(22)), in.below(4));
    }
}

ferry::tensor_properties read_properties(fuzz::bytes& in) {
    ferry::tensor_properties props;
    props.device = read_device(in);
    props.bits = flags{in.take<std::uint8_t>()};
    props.type = {static_cast<ferry::type_code>(in.below(19)), in.take<std::uint8_t>(), 1};
    props.ready_on = read_stream(in);
    auto const able = in.take<std::uint8_t>();
    props.is_shareable = (able & 3) != 3;
    props.is_describable = (able & 12) != 12;
    return props;
}

ferry::request read_request(fuzz::bytes& in) {
    ferry::request req;
    if (in.flip()) req.device = read_device(in);
    req.copy = static_cast<copy_policy>(in.below(3));
    req.stream = read_stream(in);
    auto const version = in.take<std::uint8_t>();
    req.max_version = {version % 4u, version / 4u % 6u};
    req.placement = static_cast<ferry::placement>(in.below(2));
    return req;
}

// The definitions of the rules, without functions of ferry.

bool host_reads(device_type t) {  // R39
    auto const n = static_cast<int>(t);
    return n == 1 || n == 3 || n == 11 || n == 13;
}
bool takes_cuda(device_type t) {
    return t == device_type::cuda || t == device_type::cuda_host || t == device_type::cuda_managed;
}
bool takes_rocm(device_type t) { return t == device_type::rocm || t == device_type::rocm_host; }

bool belongs(stream_token s, device_type t) {  // R43–R46
    if (!s.names_stream()) return true;
    if (s.which() == stream_token::kind::handle && s.native_handle() == 0) return false;
    if (s.family() == device_type::cuda) return takes_cuda(t);
    if (s.family() == device_type::rocm) return takes_rocm(t);
    return t != device_type::cpu && s.family() == t;
}

bool usable_as(ferry::device from, ferry::device to) {  // R35, R39, R53
    if (from.type == to.type) return from.id == to.id || host_reads(from.type);
    if (to.type == device_type::cpu) return host_reads(from.type);
    return from.type == device_type::cuda_managed && to.type == device_type::cuda;
}

/// The stream that the consumer will use: the requested one, or the default (R44, R45). Each device has its own default
/// streams.
stream_token meant(ferry::request const& req, ferry::device to) {
    if (!req.stream.is_none()) return req.stream.on_device(to);
    if (to.type == device_type::cuda) return stream_token::cuda_legacy_default(to.id);
    if (to.type == device_type::rocm) return stream_token::rocm_default(to.id);
    return {};
}

void check(ferry::tensor_properties const& props, ferry::request const& req) {
    auto const d = negotiate(props, req);
    HOLDS(d == negotiate(props, req));
    fuzz::saw(d.reason);

    // Only a refusal has a reason and a cure.
    bool const refused = d.action == action::refuse;
    HOLDS(refused == (d.reason != ferry::errc::ok));
    HOLDS(refused == (d.text != nullptr));
    if (refused) {
        HOLDS(std::strlen(d.text) > 20);
        return;
    }

    // The device of the result.
    auto const target = req.device.value_or(props.device);
    HOLDS(d.to.type == target.type && d.to.id == (host_reads(target.type) ? 0 : target.id));
    auto const n = static_cast<std::int32_t>(d.to.type);
    HOLDS(n >= 1 && n <= 21 && n != 5 && n != 6);

    // Streams of other devices are refused before.
    HOLDS(belongs(req.stream, d.to.type));

    bool const is_exact = req.placement == ferry::placement::exact;
    HOLDS(!is_exact || (props.space && usable_as(*props.space, d.to)));

    // R53, R54: share or copy.
    bool const legacy = req.max_version.major == 0;
    bool const read_only = (static_cast<std::uint64_t>(props.bits) & 1) != 0,
               padded = (static_cast<std::uint64_t>(props.bits) & 4) != 0;
    if (d.action == action::share) {
        HOLDS(usable_as(props.device, d.to));
        HOLDS(req.copy != copy_policy::always);
        HOLDS(props.is_shareable && props.is_describable);
        HOLDS(!is_exact || props.is_in_space);
        HOLDS(!legacy || (!read_only && !padded));  // R13, R15
        HOLDS(has(d.bits, flags::read_only) == read_only);
        HOLDS(!has(d.bits, flags::is_copied));  // R12: sole ownership ends
    } else {
        HOLDS(req.copy != copy_policy::never);
        HOLDS(has(d.bits, flags::is_copied));
        HOLDS(!has(d.bits, flags::read_only));
        HOLDS(req.copy == copy_policy::always || !usable_as(props.device, d.to) || !props.is_describable ||
              !props.is_shareable || (legacy && (read_only || padded)) || (is_exact && !props.is_in_space));
        HOLDS(d.placement == req.placement);
    }
    HOLDS(has(d.bits, flags::subbyte_padded) == (padded && !legacy));
    HOLDS((static_cast<std::uint64_t>(d.bits) & ~std::uint64_t{7}) == 0);  // R14

    // R4, R57: no later version than requested, unless the type or a flag needs it.
    if (legacy) {
        HOLDS(d.stamp == ferry::version::legacy);
    } else {
        std::uint32_t const needed = padded || static_cast<int>(props.type.code) >= 7 ? 1 : 0;
        std::uint32_t const asked =
            req.max_version.major > 1 || req.max_version.minor > 3 ? 3 : req.max_version.minor;
        HOLDS(d.stamp.major == 1);
        HOLDS(d.stamp.minor == (asked > needed ? asked : needed));
    }

    // R43, R48, R49: which side waits.
    bool const pending = props.device.type != device_type::cpu && !props.ready_on.is_no_sync();
    auto const ready = props.ready_on.on_device(props.device), consumer = meant(req, d.to);
    if (d.to.type == device_type::cpu) {
        HOLDS(d.wait != wait::order);
        HOLDS(!pending || d.wait == wait::host);
    }
    // R50: nothing keeps the source of the copy, and the caller has no stream.
    bool const lent = d.action == action::copy && !props.is_shareable && req.stream.is_none();
    if (lent || (!consumer.names_stream() && !consumer.is_no_sync())) HOLDS(!pending || d.wait == wait::host);
    if (d.wait == wait::host) HOLDS(d.on.names_stream());
    if (d.wait == wait::order) {
        HOLDS(pending && props.ready_on.names_stream() && d.on.names_stream());
        HOLDS(d.on == consumer && d.on != ready);
        HOLDS(belongs(d.on, d.to.type));
    }
    if (pending && !lent && consumer.names_stream() && d.to.type != device_type::cpu && consumer != ready)
        HOLDS(d.wait == wait::order);
    if (d.action == action::share && (!pending || consumer == ready) && d.to.type != device_type::cpu)
        HOLDS(d.wait == wait::none);
    if (d.action == action::share && consumer.is_no_sync() && d.to.type != device_type::cpu)
        HOLDS(d.wait == wait::none);
    if (props.device.type == device_type::cpu && d.to.type == device_type::cpu)
        HOLDS(d.wait == wait::none && d.on.is_none());
    if (d.action == action::copy && d.on.names_stream())
        HOLDS(belongs(d.on, d.to.type) || belongs(d.on, props.device.type));
    if (d.action == action::copy && pending)
        HOLDS(props.ready_on.names_stream() && belongs(props.ready_on, props.device.type));
}

void relate(ferry::tensor_properties const& props, ferry::request const& req) {
    auto const ask = [&](copy_policy policy) {
        auto other = req;
        other.copy = policy;
        return negotiate(props, other);
    };
    auto const maybe = ask(copy_policy::if_needed), always = ask(copy_policy::always), never = ask(copy_policy::never);
    if (never.action == action::share) HOLDS(maybe == never);
    if (maybe.action == action::share) HOLDS(never == maybe);
    if (maybe.action == action::copy) HOLDS(always == maybe && (never.reason == ferry::errc::copy_needed || never.reason == ferry::errc::not_shareable));
    HOLDS(always.action != action::share && never.action != action::copy);
    HOLDS(always.reason != ferry::errc::copy_needed && always.reason != ferry::errc::not_shareable);

    // Irrelevant properties have no effect: flags of an earlier exchange, unknown bits, a stream of the host.
    auto same = props;
    same.bits = flags{static_cast<std::uint64_t>(props.bits) ^ (2 | 8 | 128)};
    HOLDS(negotiate(same, req) == negotiate(props, req));
    same = props;
    same.ready_on = stream_token::cuda_legacy_default();
    if (props.device.type == device_type::cpu) HOLDS(negotiate(same, req) == negotiate(props, req));

    // A request for the current device has no effect, except that the text of a refusal names it.
    auto here = req;
    here.device = props.device;
    auto there = req;
    there.device.reset();
    auto requested = negotiate(props, here);
    auto const current = negotiate(props, there);
    if (requested.reason == ferry::errc::device) requested.text = current.text;
    HOLDS(requested == current);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    fuzz::bytes in{data, size};
    auto props = read_properties(in);
    auto const req = read_request(in);
    if (in.flip()) props.space = read_device(in);
    props.is_in_space = in.flip();
    check(props, req);
    relate(props, req);
    return 0;
}
