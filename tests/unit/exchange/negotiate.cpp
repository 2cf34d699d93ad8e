// negotiate() for all combinations of sources, targets, copy policies, versions, flags and streams, against an oracle
// that implements the text of the rules; then single decisions.
#include <ferry/exchange/detail/decide.hpp>
#include <ferry/exchange/negotiate.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace {

using namespace ferry;
constexpr auto cuda_host = device_type::cuda_host, cuda_managed = device_type::cuda_managed,
               ext_dev = device_type::ext_dev, rocm = device_type::rocm, rocm_host = device_type::rocm_host;

constexpr device pinned{cuda_host}, managed{cuda_managed}, gpu{device_type::cuda}, gpu1{device_type::cuda, 1},
    extension{ext_dev}, amd{rocm}, amd_host{rocm_host};
constexpr stream_token none{},
    no_sync = stream_token::no_sync(), legacy_stream = stream_token::cuda_legacy_default(),
    legacy_of_1 = stream_token::cuda_legacy_default(1), thread_stream = stream_token::cuda_per_thread_default(),
    stream_a = stream_token::from_cuda_handle(0xA0), stream_b = stream_token::from_cuda_handle(0xB0),
    null_stream = stream_token::from_cuda_handle(0), rocm_stream = stream_token::rocm_default(),
    ext_stream = stream_token::native(ext_dev, 0xE0);
constexpr version v1_0{1, 0}, v1_99{1, 99}, v2_0{2, 0};
constexpr data_type f32{type_code::float_, 32}, f8{type_code::float8_e4m3fn, 8}, f4{type_code::float4_e2m1fn, 4};

// ---- the oracle ----

// R39, R53: memory that the target can use without a copy.
constexpr bool can_share(device from, device to) {
    if (from.type == to.type && (from.id == to.id || from.type == device_type::cpu || from.type == cuda_host ||
                                 from.type == cuda_managed || from.type == rocm_host))
        return true;  // R35: the id is ignored
    bool const host_reads = from.type == cuda_host || from.type == rocm_host || from.type == cuda_managed;
    return (to.type == device_type::cpu && host_reads) || (to.type == device_type::cuda && from.type == cuda_managed);
}

// R44–R46, R48: the stream belongs to the kind of device of the target, and is not ambiguous.
constexpr bool stream_fits(stream_token s, device to) {
    if (s == none || s == no_sync) return true;
    if (s == null_stream) return false;
    bool const cuda_target = to.type == device_type::cuda || to.type == cuda_host || to.type == cuda_managed;
    if (s == rocm_stream) return to.type == rocm || to.type == rocm_host;
    if (s == ext_stream) return to.type == ext_dev;
    if (s == legacy_of_1) return to == gpu1 || to.type == cuda_host || to.type == cuda_managed;
    return cuda_target;
}

// R44, R45: the stream of None.
constexpr stream_token meant(stream_token s, device to) {
    if (s != none) return s;
    if (to.type == device_type::cuda) return legacy_stream;
    if (to.type == rocm) return rocm_stream;
    return none;
}

// R44: every GPU has its own default streams. Pinned and managed memory has no device id.
constexpr stream_token of_device(stream_token s, device where) {
    if (where.type != device_type::cuda && where.type != rocm) return s;
    if (s == legacy_stream) return stream_token::cuda_legacy_default(where.id);
    if (s == thread_stream) return stream_token::cuda_per_thread_default(where.id);
    if (s == rocm_stream) return stream_token::rocm_default(where.id);
    return s;
}

// R4: the smaller minor version, but at least the one that type and flags need.
constexpr version stamp(data_type type, bool padded, version max) {
    std::uint32_t const least = padded || type.code >= type_code::float8_e3m4 ? 1 : 0;
    std::uint32_t const asked = max.major == 1 ? max.minor : 3;  // R57: at most the current version
    std::uint32_t const mine = asked < 3 ? asked : 3;
    return {1, mine > least ? mine : least};
}

constexpr decision refused(errc why) {
    decision d;
    d.action = action::refuse;
    d.reason = why;
    return d;
}

constexpr decision expected(tensor_properties p, request const& r) {
    bool const foreign = p.ready_on != none && !stream_fits(p.ready_on, p.device);
    p.ready_on = of_device(p.ready_on, p.device);
    device to = r.device ? *r.device : p.device;
    bool const id_matters =
        to.type != device_type::cpu && to.type != cuda_host && to.type != rocm_host && to.type != cuda_managed;
    if (static_cast<int>(to.type) == 5 || (id_matters && to.id < 0)) return refused(errc::device);  // R34
    if (!id_matters) to.id = 0;                                                                     // R35
    bool const exact = r.placement == placement::exact;
    if (exact && !p.space) return refused(errc::argument);
    if (exact && !can_share(*p.space, to)) return refused(errc::device);
    if (!stream_fits(r.stream, to)) return refused(errc::stream);

    bool const legacy = r.max_version == version::legacy;  // R57
    bool const read_only = has(p.bits, flags::read_only), padded = has(p.bits, flags::subbyte_padded);
    bool const shares = can_share(p.device, to) && r.copy != copy_policy::always &&
                        !(legacy && (read_only || padded)) && p.is_describable && p.is_shareable &&
                        (!exact || p.is_in_space);  // R53, R15, R13, R21
    if (!shares && r.copy == copy_policy::never) {  // R54
        auto owned = p;
        owned.is_shareable = true;
        return refused(p.is_shareable || expected(owned, r).reason == errc::copy_needed ? errc::copy_needed
                                                                                        : errc::not_shareable);
    }

    decision d;
    d.action = shares ? action::share : action::copy;
    if (!shares) d.placement = r.placement;
    d.to = to;
    bool const pending = p.device.type != device_type::cpu && p.ready_on != already_ready;
    stream_token const consumer = of_device(meant(r.stream, to), to);
    bool const lent = !shares && !p.is_shareable && p.device.type != device_type::cpu && r.stream == none;  // R50
    bool const finished_on_return = lent || to.type == device_type::cpu || consumer == none;                // R48, R49
    bool const cares_itself = consumer == no_sync && !finished_on_return;                                   // R44: -1
    bool needs_producers_stream = false;
    if (shares) {
        if (pending && finished_on_return) d.wait = wait::host, d.on = p.ready_on;
        else if (pending && !cares_itself && consumer != p.ready_on) d.wait = wait::order, d.on = consumer;  // R43
        needs_producers_stream = d.wait != wait::none;
    } else {
        needs_producers_stream = pending;
        if (p.device.type == device_type::cpu && to.type == device_type::cpu) d.on = none;
        else if (finished_on_return || cares_itself) d.on = pending ? p.ready_on : none;  // the consumer has no stream
        else d.on = consumer;
        if (finished_on_return && d.on != none) d.wait = wait::host;
        if (!finished_on_return && !cares_itself && pending && p.ready_on != consumer) d.wait = wait::order;
    }
    if (needs_producers_stream && (p.ready_on == none || foreign)) return refused(errc::stream);

    if (!shares) d.bits = flags::is_copied | (padded && !legacy ? flags::subbyte_padded : flags::none);  // R11, R12
    else d.bits = (read_only ? flags::read_only : flags::none) | (padded ? flags::subbyte_padded : flags::none);
    d.stamp = legacy ? version::legacy : stamp(p.type, padded, r.max_version);
    return d;
}

constexpr bool agree(decision got, decision const& want) {
    if (want.action == action::refuse)
        return got.action == action::refuse && got.reason == want.reason && got.text != nullptr;
    return got == want;
}

// ---- the table ----

template <class F>
void for_each_exchange(F f) {
    constexpr device sources[] = {cpu, gpu, gpu1, pinned, amd, amd_host, extension, managed};
    constexpr std::optional<device> targets[] = {std::nullopt,
                                                 cpu,
                                                 device{device_type::cpu, -7},
                                                 gpu,
                                                 gpu1,
                                                 pinned,
                                                 managed,
                                                 extension,
                                                 amd,
                                                 device{device_type::cuda, -1},
                                                 device{device_type{5}}};
    constexpr copy_policy policies[] = {copy_policy::if_needed, copy_policy::always, copy_policy::never};
    constexpr version versions[] = {version::legacy, v1_0, version::current, v1_99, v2_0};
    constexpr stream_token streams[] = {none,     no_sync,     legacy_stream, legacy_of_1, thread_stream,
                                        stream_a, null_stream, rocm_stream,   ext_stream};
    constexpr stream_token readies[] = {none,     already_ready, legacy_stream, legacy_of_1, stream_a,
                                        stream_b, null_stream,   rocm_stream,   ext_stream};
    constexpr struct {
        placement how;
        std::optional<device> space{};
        bool is_inside = false;
    } placements[] = {{placement::any},
                      {placement::any, gpu, true},
                      {placement::exact},
                      {placement::exact, cpu, false},
                      {placement::exact, cpu, true},
                      {placement::exact, gpu, true},
                      {placement::exact, gpu1, false},
                      {placement::exact, managed, true}};
    for (auto const where : sources)
        for (auto const& target : targets)
            for (auto const policy : policies)
                for (auto const& max : versions)
                    for (auto const stream : streams)
                        for (auto const ready : readies)
                            for (unsigned bits = 0; bits < 16; ++bits)
                                for (auto const& place : placements) {
                                    bool const is_plain = &place == placements;
                                    if (!is_plain && max != version::legacy && max != version::current) continue;
                                    tensor_properties props{.device = where, .ready_on = ready};
                                    if ((bits & 1) != 0) props.bits |= flags::read_only;
                                    if ((bits & 2) != 0) props.bits |= flags::subbyte_padded;
                                    props.is_shareable = (bits & 4) == 0;
                                    props.is_describable = (bits & 8) == 0;
                                    props.type = (bits & 2) != 0 ? f4 : f32;
                                    props.space = place.space;
                                    props.is_in_space = place.is_inside;
                                    request req{target, policy, stream, max};
                                    req.placement = place.how;
                                    f(props, req);
                                }
}

}  // namespace

TEST_CASE(
    "R53: every decision is the one that the rules require (R4, R11-R13, R15, R21, R34, R35, R39, R40, R43-R46, R48, R49, R54, R55, R57)") {
    std::int64_t cells = 0, wrong = 0;
    for_each_exchange([&](tensor_properties const& props, request const& req) {
        ++cells;
        auto const got = negotiate(props, req);
        auto const want = expected(props, req);
        if (agree(got, want) || ++wrong > 5) return;
        INFO("source ", name(props.device.type), " ", props.device.id, ", bits ", static_cast<int>(props.bits),
             ", ready on ", static_cast<int>(props.ready_on.which()), " ", props.ready_on.native_handle());
        INFO("target ", req.device ? name(req.device->type) : "none", ", copy ", static_cast<int>(req.copy),
             ", stream ", static_cast<int>(req.stream.which()), " ", req.stream.native_handle(), ", version ",
             req.max_version.major, ".", req.max_version.minor, ", exact ", req.placement == placement::exact,
             ", space ", props.space ? name(props.space->type) : "none", ", inside ", props.is_in_space);
        INFO("got: ", static_cast<int>(got.action), " wait ", static_cast<int>(got.wait), " on ",
             got.on.native_handle(), " bits ", static_cast<int>(got.bits), " ", name(got.reason), " ",
             got.text != nullptr ? got.text : "");
        INFO("wanted: ", static_cast<int>(want.action), " wait ", static_cast<int>(want.wait), " on ",
             want.on.native_handle(), " bits ", static_cast<int>(want.bits), " ", name(want.reason));
        FAIL_CHECK("the decision differs from the oracle");
    });
    CHECK(wrong == 0);
    CHECK(cells == 8 * 11 * 3 * 9 * 9 * 16 * (5 + 7 * 2));
}

TEST_CASE("R53: copy=False never copies, copy=True always does, and every refusal has a text") {
    std::int64_t wrong = 0;
    for_each_exchange([&](tensor_properties const& props, request const& req) {
        auto const d = negotiate(props, req);
        if (req.copy == copy_policy::never) wrong += d.action == action::copy;
        if (req.copy == copy_policy::always) wrong += d.action == action::share;
        // R11, R12.
        if (d.action == action::copy) wrong += !has(d.bits, flags::is_copied) || has(d.bits, flags::read_only);
        if (d.action == action::share) wrong += has(d.bits, flags::is_copied);  // R12
        if (d.action == action::refuse) wrong += d.text == nullptr || d.reason == errc::ok;
    });
    CHECK(wrong == 0);
}

TEST_CASE("R48: the host waits for data exported to the CPU, and pending data is never exported without an order") {
    std::int64_t wrong = 0;
    for_each_exchange([&](tensor_properties const& props, request const& req) {
        auto const d = negotiate(props, req);
        if (d.action == action::refuse) return;
        bool const pending = props.device.type != device_type::cpu && props.ready_on != already_ready;
        if (!pending || req.stream == no_sync) return;
        stream_token const ready = of_device(props.ready_on, props.device);
        if (d.to.type == device_type::cpu) wrong += d.wait != wait::host || d.on != ready;
        else wrong += d.wait == wait::none && d.on != ready && of_device(meant(req.stream, d.to), d.to) != ready;
    });
    CHECK(wrong == 0);
}

TEST_CASE("D6: the short form for requests that are known at run time only makes the decisions of negotiate") {
    std::int64_t wrong = 0;
    for_each_exchange([&](tensor_properties props, request req) {
        props.is_behind_event = has(props.bits, flags::read_only);
        props.lends_read_only = !props.is_shareable;
        if (!props.is_describable) props.device.id += 3;  // R35: ignored on the host
        if (props.ready_on == already_ready) req.layout = layout::contiguous;
        auto one = detail::negotiate_at_run_time(props, req), other = negotiate(props, req);
        auto const text = [](decision& d) {
            return std::string_view{d.text != nullptr ? std::exchange(d.text, nullptr) : ""};
        };
        wrong += text(one) != text(other) || one != other;  // equal literals may have two addresses
    });
    CHECK(wrong == 0);
}

// ---- single decisions ----

TEST_CASE("R53: the same device: None shares, True copies and flags, False shares") {
    constexpr tensor_properties host{.type = f32};
    CHECK(negotiate(host, {}).action == action::share);
    CHECK(negotiate(host, {}).bits == flags::none);
    CHECK(negotiate(host, {.copy = copy_policy::always}).action == action::copy);
    CHECK(negotiate(host, {.copy = copy_policy::always}).bits == flags::is_copied);
    CHECK(negotiate(host, {.copy = copy_policy::never}).action == action::share);
    CHECK(negotiate(host, {.copy = copy_policy::always}).wait == wait::none);
}

TEST_CASE("R53: another device: None and True copy, False is refused unless that device can access the memory") {
    constexpr tensor_properties device_data{.device = gpu, .type = f32, .ready_on = stream_a};
    CHECK(negotiate(device_data, {.device = cpu}).action == action::copy);
    CHECK(negotiate(device_data, {.device = cpu, .copy = copy_policy::always}).action == action::copy);
    CHECK(negotiate(device_data, {.device = cpu, .copy = copy_policy::never}).reason == errc::copy_needed);
    constexpr tensor_properties managed_data{.device = managed, .type = f32, .ready_on = stream_a};
    auto const d = negotiate(managed_data, {.device = cpu, .copy = copy_policy::never});
    CHECK((d.action == action::share && d.to == cpu && d.wait == wait::host && d.on == stream_a));
    CHECK(negotiate(managed_data, {.device = gpu}).action == action::share);  // R39: managed memory as CUDA memory
    CHECK(negotiate({.device = pinned, .ready_on = stream_a}, {.device = gpu}).action == action::copy);
    CHECK(negotiate({.device = gpu, .ready_on = stream_a}, {.device = gpu1}).action == action::copy);
    CHECK(negotiate({.device = cpu}, {.device = managed}).action == action::copy);
}

TEST_CASE("D9: placement::exact shares what the space contains only, and requires a space of the target device") {
    constexpr request exact{.placement = placement::exact};
    constexpr tensor_properties inside{.space = cpu, .is_in_space = true}, outside{.space = cpu};
    auto const says = [](decision const& d, std::string_view text) {
        return std::string_view{d.text != nullptr ? d.text : ""}.find(text) != std::string_view::npos;
    };
    CHECK(negotiate(inside, exact).action == action::share);
    auto const d = negotiate(outside, exact);
    CHECK((d.action == action::copy && d.bits == flags::is_copied && d.placement == placement::exact));
    auto never = exact;
    never.copy = copy_policy::never;
    CHECK(negotiate(outside, never).reason == errc::copy_needed);
    CHECK(says(negotiate(outside, never), "allocate the data from the space"));
    CHECK(negotiate(outside, {}).action == action::share);
    CHECK(negotiate({}, exact).reason == errc::argument);
    CHECK(says(negotiate({}, exact), "pass ferry::destination{space, back_end}"));
    CHECK(negotiate({.space = gpu}, never).reason == errc::device);
    CHECK(says(negotiate({.space = gpu}, exact), "request the device of the space"));
    CHECK(negotiate({.space = pinned}, exact).to == cpu);  // R39: pinned memory as CPU memory
}

TEST_CASE("R43: different streams are ordered, equal ones are not, and with -1 no stream is") {
    constexpr tensor_properties p{.device = gpu, .type = f32, .ready_on = stream_a};
    auto const other = negotiate(p, {.stream = stream_b});
    CHECK((other.wait == wait::order && other.on == stream_b));
    CHECK(negotiate(p, {.stream = stream_a}).wait == wait::none);
    CHECK(negotiate(p, {.stream = no_sync}).wait == wait::none);
    auto const unsaid = negotiate(p, {});  // R44: None is the legacy default stream
    CHECK((unsaid.wait == wait::order && unsaid.on == legacy_stream));
    CHECK(negotiate({.device = gpu, .ready_on = already_ready}, {.stream = stream_b}).wait == wait::none);
}

TEST_CASE("R43: the consumer's stream waits for an event, or the host does, where the data is read without a stream") {
    for (auto const where : {gpu, pinned, managed, extension}) {
        tensor_properties const p{.device = where, .type = f32, .is_behind_event = true};
        bool const is_cuda = where != extension, has_default = where == gpu;
        stream_token const own = is_cuda ? stream_b : ext_stream;
        auto const shared = negotiate(p, {.stream = own});
        CHECK((shared.action == action::share && shared.wait == wait::order && shared.on == own));
        auto const copied = negotiate(p, {.copy = copy_policy::always, .stream = own});
        CHECK((copied.action == action::copy && copied.wait == wait::order && copied.on == own));
        auto const unsaid = negotiate(p, {});
        CHECK(unsaid.wait == (has_default ? wait::order : wait::host));
        CHECK(unsaid.on == (has_default ? legacy_stream : none));
        CHECK(negotiate(p, {.stream = no_sync}).wait == wait::none);
        auto const read = negotiate(p, {.copy = copy_policy::always, .stream = no_sync});
        CHECK((read.wait == wait::host && read.on == none));
        auto const to_host = negotiate(p, {.device = cpu});
        CHECK((to_host.wait == wait::host && to_host.on == none));
    }
    CHECK(negotiate({.is_behind_event = true}, {.copy = copy_policy::always}).wait == wait::none);
}

TEST_CASE("R44: a null stream, which may be either default stream, is refused from producer and consumer") {
    CHECK(negotiate({.device = gpu, .ready_on = stream_a}, {.stream = null_stream}).reason == errc::stream);
    CHECK(negotiate({.device = gpu, .ready_on = null_stream}, {.stream = stream_a}).reason == errc::stream);
}

TEST_CASE("R45: None is the default stream of ROCm, and CUDA tokens are refused for it") {
    constexpr tensor_properties p{.device = amd, .ready_on = rocm_stream};
    CHECK(negotiate(p, {}).wait == wait::none);
    CHECK(negotiate(p, {.stream = legacy_stream}).reason == errc::stream);
    CHECK(negotiate(p, {.stream = thread_stream}).reason == errc::stream);
}

TEST_CASE("R46: the CPU accepts no stream except -1") {
    CHECK(negotiate({}, {.stream = legacy_stream}).reason == errc::stream);
    CHECK(negotiate({}, {.stream = no_sync}).action == action::share);
    CHECK(negotiate({}, {.stream = ext_stream}).reason == errc::stream);
}

TEST_CASE("R48: the stream belongs to the target device") {
    constexpr tensor_properties p{.device = gpu, .type = f32, .ready_on = stream_a};
    CHECK(negotiate(p, {.device = cpu, .stream = stream_b}).reason == errc::stream);
    CHECK(negotiate(p, {.device = extension, .stream = stream_b}).reason == errc::stream);
    auto const to_host = negotiate(p, {.device = cpu, .stream = no_sync});  // -1 is accepted and has no effect
    CHECK((to_host.action == action::copy && to_host.wait == wait::host && to_host.on == stream_a));
    auto const to_pinned = negotiate(p, {.device = pinned, .stream = stream_b});
    CHECK((to_pinned.action == action::copy && to_pinned.wait == wait::order && to_pinned.on == stream_b));
    CHECK(negotiate({}, {.device = extension, .stream = ext_stream}).on == ext_stream);
}

TEST_CASE("R49: without a stream, pinned and managed memory is waited for on the host") {
    for (auto const where : {pinned, managed}) {
        auto const d = negotiate({.device = where, .ready_on = stream_a}, {});
        CHECK(d.action == action::share);
        CHECK(d.wait == wait::host);
        CHECK(d.on == stream_a);
        CHECK(negotiate({.device = where, .ready_on = stream_a}, {.stream = stream_b}).wait == wait::order);
    }
    CHECK(negotiate({.device = amd_host, .ready_on = rocm_stream}, {}).wait == wait::host);
}

TEST_CASE("R43: a wait for an unknown stream is refused, and the text contains the fix") {
    auto const d = negotiate({.device = gpu}, {.device = cpu});
    CHECK(d.reason == errc::stream);
    CHECK(std::string_view{d.text != nullptr ? d.text : ""}.find("already_ready") != std::string_view::npos);
    // Without a wait the stream is not needed.
    CHECK(negotiate({.device = gpu}, {.stream = no_sync}).action == action::share);
    CHECK(negotiate({.device = gpu, .ready_on = ext_stream}, {.device = cpu}).reason == errc::stream);
}

TEST_CASE("R43: no work is pending on host memory, even if the producer names a stream") {
    auto const d = negotiate({.device = cpu, .ready_on = stream_a}, {.device = extension});
    CHECK(d.action == action::copy);
    CHECK(d.wait == wait::none);
    CHECK(d.on == none);
}

TEST_CASE("R15: read-only data for a legacy consumer is copied for None and True, and refused for False") {
    constexpr tensor_properties p{.bits = flags::read_only, .type = f32};
    constexpr request old{.max_version = version::legacy};
    CHECK(negotiate(p, old).action == action::copy);
    CHECK(negotiate(p, old).stamp == version::legacy);
    CHECK(negotiate(p, {.copy = copy_policy::never, .max_version = version::legacy}).reason == errc::copy_needed);
    CHECK(negotiate({}, old).action == action::share);
    CHECK(negotiate(p, {}).bits == flags::read_only);  // R11
}

TEST_CASE("R15: read-only data that its owner lends to legacy consumers is shared with them, without a flag") {
    constexpr tensor_properties p{.bits = flags::read_only, .type = f32, .lends_read_only = true};
    for (auto const policy : {copy_policy::if_needed, copy_policy::never}) {
        auto const d = negotiate(p, {.copy = policy, .max_version = version::legacy});
        CHECK((d.action == action::share && d.bits == flags::none && d.stamp == version::legacy));
    }
    CHECK(negotiate(p, {.copy = copy_policy::always, .max_version = version::legacy}).action == action::copy);
    CHECK(negotiate(p, {}).bits == flags::read_only);  // R11
    constexpr tensor_properties padded{
        .bits = flags::read_only | flags::subbyte_padded, .type = f4, .lends_read_only = true};
    CHECK(negotiate(padded, {.max_version = version::legacy}).action == action::copy);  // R13
}

TEST_CASE("R13: a legacy consumer receives packed copies of padded data") {
    constexpr tensor_properties p{.bits = flags::subbyte_padded, .type = f4};
    CHECK(negotiate(p, {.max_version = version::legacy}).bits == flags::is_copied);
    CHECK(negotiate(p, {.copy = copy_policy::always}).bits == (flags::is_copied | flags::subbyte_padded));
}

TEST_CASE("R21: packed data that begins within a byte is copied for None and True, and refused for False") {
    constexpr tensor_properties p{.type = f4, .is_describable = false};
    CHECK(negotiate(p, {}).action == action::copy);
    CHECK(negotiate(p, {.copy = copy_policy::never}).reason == errc::copy_needed);
}

TEST_CASE("R4: the smaller minor is stamped, raised to what the type and the flags need") {
    CHECK(negotiate({.type = f32}, {.max_version = v1_0}).stamp == v1_0);
    CHECK(negotiate({.type = f8}, {.max_version = v1_0}).stamp == version{1, 1});
    CHECK(negotiate({.bits = flags::subbyte_padded, .type = {type_code::int_, 4}}, {.max_version = v1_0}).stamp ==
          version{1, 1});
    CHECK(negotiate({.type = f32}, {}).stamp == version::current);
}

TEST_CASE("R57: a newer version is answered with the current one, and none with the legacy struct") {
    CHECK(negotiate({.type = f32}, {.max_version = v2_0}).stamp == version::current);
    CHECK(negotiate({.type = f32}, {.max_version = v1_99}).stamp == version::current);
    CHECK(negotiate({.type = f32}, {.max_version = version::legacy}).stamp == version::legacy);
}

TEST_CASE("R12: a share of copied memory clears IS_COPIED, a new copy sets it") {
    CHECK(negotiate({.bits = flags::is_copied}, {}).bits == flags::none);
    CHECK(negotiate({.bits = flags::is_copied | flags::read_only}, {}).bits == flags::read_only);
}

TEST_CASE("R14: unknown flag bits are not passed on") {
    CHECK(negotiate({.bits = flags{0xF0}}, {}).bits == flags::none);
}

TEST_CASE("R34: device types that DLPack does not define and negative device ids are refused") {
    CHECK(negotiate({}, {.device = device{device_type{6}}}).reason == errc::device);
    CHECK(negotiate({}, {.device = device{device_type::cuda, -1}}).reason == errc::device);
}

TEST_CASE("R35: any id is accepted for CPU, pinned and managed memory; 0 is written") {
    for (auto const type : {device_type::cpu, cuda_host, cuda_managed}) {
        auto const d = negotiate({.device = {type, 3}, .ready_on = already_ready}, {.device = device{type, 5}});
        CHECK(d.action == action::share);
        CHECK(d.to == device{type, 0});
    }
    CHECK(negotiate({}, {.device = device{device_type::cpu, -1}}).action == action::share);
}

TEST_CASE("R53: data whose owner can be neither moved nor shared is copied, or refused for copy=False") {
    tensor_properties const p{.type = f32, .is_shareable = false};
    CHECK(negotiate(p, {}).action == action::copy);
    CHECK(negotiate(p, {.copy = copy_policy::never}).reason == errc::not_shareable);
    CHECK(negotiate(p, {.copy = copy_policy::always}).action == action::copy);
}

TEST_CASE("R44: the default stream of one GPU is not that of another, so a move between them is ordered") {
    constexpr tensor_properties far{.device = gpu1, .type = f32, .ready_on = legacy_stream};
    CHECK(negotiate(far, {.device = gpu}).wait == wait::order);
    CHECK(negotiate(far, {.device = gpu}).on == stream_token::cuda_legacy_default(0));
    CHECK(negotiate(far, {.device = cpu}).on == stream_token::cuda_legacy_default(1));
    CHECK(negotiate(far, {.stream = legacy_stream}).wait == wait::none);
}

TEST_CASE("R48: the default stream of a GPU other than the target is refused, and the text contains the fix") {
    constexpr auto of_0 = stream_token::cuda_legacy_default(0), of_1 = stream_token::cuda_legacy_default(1);
    constexpr tensor_properties here{.device = gpu, .type = f32, .ready_on = stream_a};
    auto const is_refused = [](decision const& d, char const* cure) {
        std::string_view const said{d.text != nullptr ? d.text : ""};
        return d.reason == errc::stream && said.find("stream of another device") == 0 &&
               said.find(cure) != std::string_view::npos;
    };
    CHECK(is_refused(negotiate(here, {.stream = of_1}), "omit the device of the stream"));
    CHECK(is_refused(negotiate(here, {.stream = stream_token::cuda_per_thread_default(1)}), "R48"));
    CHECK(is_refused(negotiate(here, {.device = gpu1, .stream = of_0}), "pass a stream of the target device"));
    CHECK(is_refused(negotiate({.type = f32}, {.device = gpu, .stream = of_1}), "R48"));
    CHECK(is_refused(negotiate({.device = amd, .ready_on = rocm_stream}, {.stream = stream_token::rocm_default(1)}),
                     "R48"));
    CHECK(negotiate(here, {.device = gpu1, .stream = of_1}).wait == wait::order);
    for (auto const where : {pinned, managed})  // streams of every device are accepted
        CHECK(negotiate({.device = where, .ready_on = stream_a}, {.stream = of_1}).on == of_1);
}

TEST_CASE("R43: data ready on the default stream of another GPU is refused if a wait is needed") {
    constexpr auto of_1 = stream_token::cuda_legacy_default(1);
    constexpr tensor_properties wrong{.device = gpu, .type = f32, .ready_on = of_1};
    for (auto const& d : {negotiate(wrong, {.stream = stream_a}), negotiate(wrong, {.device = cpu}),
                          negotiate(wrong, {.device = gpu1, .stream = of_1})}) {
        CHECK(d.reason == errc::stream);
        CHECK(std::string_view{d.text != nullptr ? d.text : ""}.find("stream of another device") == 0);
    }
    CHECK(negotiate(wrong, {.stream = no_sync}).action == action::share);  // no wait
    CHECK(negotiate({.device = gpu1, .type = f32, .ready_on = of_1}, {.device = gpu, .stream = stream_a}).wait ==
          wait::order);
    CHECK(negotiate({.device = pinned, .ready_on = of_1}, {.device = cpu}).on == of_1);
}

TEST_CASE("R48: a stream handle is bound to the device of the memory for which it is ordered") {
    constexpr tensor_properties far{.device = gpu1, .type = f32, .ready_on = stream_a};
    auto const moved = negotiate(far, {.device = gpu, .stream = stream_b}).on;
    CHECK((moved.has_device() && moved.device_id() == 0));
    auto const shared = negotiate(far, {.stream = stream_b}).on;
    CHECK((shared.has_device() && shared.device_id() == 1));
    auto const fetched = negotiate(far, {.device = cpu}).on;
    CHECK((fetched.has_device() && fetched.device_id() == 1));
    CHECK_FALSE(negotiate(far, {.device = pinned, .stream = stream_b}).on.has_device());
}
