// placement::exact: the result of an exchange lies in the space of the destination. Every combination of placement,
// copy policy, space and device against an oracle of values, addresses and flags; then failures.
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/exchange/to_host.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <support/fails.hpp>
#include <support/placed_space.hpp>
#include <support/sim_array.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace {

using namespace support;
using ferry::placement;

device const gpu{device_type::cuda}, gpu1{device_type::cuda, 1}, pinned{device_type::cuda_host},
    managed{device_type::cuda_managed};

/// An array whose memory comes from a space.
struct placed_array {
    std::shared_ptr<void> memory;
    device where;
    stream_token ready_on;
    std::int64_t extent = 5;
};
/// The same, with memory of its own for copies.
struct allocating_array : placed_array {};

constexpr std::int64_t count = 5;

placed_array make(sim_system& sim, knowing_space space, stream_token on) {
    float const values[count] = {1, 2, 3, 4, 5};
    placed_array made{
        {space.allocate(sizeof values, 64), [space](void* p) { space.deallocate(p, 0, 0); }}, space.device(), on};
    auto const block = sim.block_at(made.memory.get());
    if (on.names_stream()) sim.write(on, block, values, sizeof values);
    else std::memcpy(block->device_side(), values, sizeof values);
    return made;
}

template <class Array>
struct placed_traits {
    static tensor_view view(Array const& a) {
        return {static_cast<float*>(a.memory.get()), {&a.extent, 1}, {}, a.where};
    }
    static Array share(Array const& a) { return a; }
    static stream_token ready_on(Array const& a) { return a.ready_on; }
    static Array adopt(managed_tensor m) {
        auto const where = m.device();
        auto const owner = std::make_shared<managed_tensor>(std::move(m));
        Array made;
        made.memory = {owner, const_cast<void*>(owner->view().data())};
        made.where = where;
        return made;
    }
};

}  // namespace

template <>
struct ferry::array_traits<placed_array> : placed_traits<placed_array> {};
template <>
struct ferry::array_traits<allocating_array> : placed_traits<allocating_array> {
    static allocating_array allocate(data_type, shape_view, device) {
        FAIL("array_traits::allocate was called");
        return {};
    }
};

namespace {

/// A producer that ignores requests, and records the last.
struct own_producer {
    placed_array& array;
    request asked{};
    managed_tensor ferry_export(request const& req) {
        asked = req;
        return ferry::to_dlpack(array);
    }
};

managed_tensor tensor_of(placed_array const& array) {
    return ferry::make_managed(placed_array{array}, [](placed_array& a) { return ferry::view_of(a); });
}

enum class outcome { share, copy, device, copy_needed };

// R39: memory that the target can use without a copy.
bool usable(device from, device to) {
    return from == to || (to == ferry::cpu && (from == pinned || from == managed)) ||
           (to.type == device_type::cuda && from == managed);
}

outcome expected(placement how, copy_policy copy, bool is_inside, device data, device space, device target) {
    bool const exact = how == placement::exact;
    if (exact && !usable(space, target)) return outcome::device;
    bool const can_share = usable(data, target) && (!exact || is_inside);
    if (can_share && copy != copy_policy::always) return outcome::share;
    if (copy == copy_policy::never) return outcome::copy_needed;
    return usable(space, target) ? outcome::copy : outcome::device;
}

struct world {
    sim_system sim{gpu, gpu1, pinned, managed};
    stream_token theirs = sim.make_stream(device_type::cuda), ours = sim.make_stream(device_type::cuda);
};

/// Runs one exchange, and compares it with the oracle. `run(array, request, back_end)` returns a tensor.
template <class Space, class Run>
void check_one(bool is_inside, request const& asked, device data, device space_on, Run run) {
    world w;
    arena target{w.sim, space_on}, other{w.sim, data};
    {
        auto const on = data == ferry::cpu ? ferry::already_ready : w.theirs;
        auto array = make(w.sim, knowing_space{is_inside ? &target : &other}, on);
        auto const* const address = array.memory.get();
        int const made = target.allocated;
        request req = asked;
        if (ferry::uses_streams(req.device->type)) req.stream = w.ours;
        bool const knows = ferry::containing_space<Space>;
        auto const want = expected(req.placement, req.copy, is_inside && knows, data, space_on, *req.device);
        INFO("data on ", shown(ferry::name(data.type)), ", space on ", shown(ferry::name(space_on.type)),
             ", request for ", shown(ferry::name(req.device->type)), ", copy ", static_cast<int>(req.copy), ", exact ",
             req.placement == placement::exact, ", inside ", is_inside, ", knows ", knows);
        auto const exchange = [&] { return run(array, req, ferry::destination{Space{&target}, w.sim}); };
        if (want == outcome::device) {
            fails(errc::device, [&] { (void)exchange(); }, {"the space"});
        } else if (want == outcome::copy_needed) {
            fails(errc::copy_needed, [&] { (void)exchange(); }, {"permit a copy"});
        } else {
            managed_tensor const got = exchange();
            w.sim.finish(w.ours);
            w.sim.finish(w.theirs);
            for (int i = 0; i < count; ++i) CHECK(element(w.sim, got.view(), i) == float(i + 1));
            CHECK(got.device() == *req.device);
            CHECK(got.is_copied() == (want == outcome::copy));
            CHECK((got.view().data() == address) == (want == outcome::share));
            bool const is_placed = req.placement == placement::exact || want == outcome::copy;
            if (is_placed) CHECK(target.has(got.view().data()));
            CHECK(target.allocated - made == (want == outcome::copy));
        }
        if (req.placement == placement::any) CHECK(target.asked == 0);
    }
    CHECK(w.sim.races() == 0);
    CHECK(target.allocated == target.freed);
    CHECK(other.allocated == other.freed);
    CHECK(w.sim.live_bytes() == 0);
}

template <class Run>
void check_all(Run run) {
    for (device const data : {ferry::cpu, gpu, pinned, managed})
        for (device const space_on : {ferry::cpu, gpu, gpu1, pinned, managed})
            for (device const to : {ferry::cpu, gpu, gpu1, pinned})
                for (auto const copy : {copy_policy::always, copy_policy::if_needed, copy_policy::never})
                    for (auto const how : {placement::any, placement::exact}) {
                        request const req{.device = to, .copy = copy, .placement = how};
                        for (bool const is_inside : {false, true}) {
                            if (is_inside && data != space_on) continue;
                            check_one<knowing_space>(is_inside, req, data, space_on, run);
                            check_one<plain_space>(is_inside, req, data, space_on, run);
                        }
                    }
}

}  // namespace

TEST_CASE("D9: an export with placement::exact shares what the space contains, and copies all else into it") {
    check_all([](placed_array& a, request const& req, auto const& b) { return ferry::to_dlpack(a, req, b); });
    check_all([](placed_array& a, request const& req, auto const& b) {
        auto moved = a;
        auto got = ferry::try_to_dlpack(std::move(moved), req, b);
        if (!got) CHECK(moved.memory == a.memory);
        return std::move(got).value();
    });
    check_all([](placed_array& a, request const& req, auto const& b) {
        return ferry::to_dlpack(tensor_of(a), req, b, a.ready_on);
    });
}

TEST_CASE("D9: an import with placement::exact shares what the space contains, and copies all else into it") {
    check_all([](placed_array& a, request const& req, auto const& b) {
        return ferry::from_dlpack<managed_tensor>(a, req, b);
    });
    check_all([](placed_array& a, request const& req, auto const& b) {
        return ferry::from_dlpack<managed_tensor>(tensor_of(a), req, b, a.ready_on);
    });
}

TEST_CASE("D24: a reference to a destination, and a back end around one, place results in its space") {
    check_all([](placed_array& a, request const& req, auto const& b) {
        return ferry::to_dlpack(a, req, ferry::back_end_ref{b});
    });
    check_all([](placed_array& a, request const& req, auto const& b) {
        return ferry::to_dlpack(a, req, ferry::detail::changed_back_end{b});
    });
}

TEST_CASE("D9: with placement::exact, array_traits::allocate does not allocate") {
    check_all([](placed_array& a, request const& req, auto const& b) {
        if (req.placement == placement::any) return ferry::to_dlpack(a, req, b);
        return ferry::to_dlpack(allocating_array{a}, req, b);
    });
}

TEST_CASE("D9: the space receives what an exporter returns, which was not asked to place it") {
    for (auto const copy : {copy_policy::if_needed, copy_policy::always}) {
        world w;
        arena target{w.sim, pinned}, other{w.sim, ferry::cpu};
        auto array = make(w.sim, knowing_space{&other}, ferry::already_ready);
        own_producer producer{array};
        auto const got = ferry::from_dlpack<managed_tensor>(
            producer, {.device = ferry::cpu, .copy = copy, .placement = placement::exact},
            ferry::destination{knowing_space{&target}, w.sim});
        CHECK(target.has(got.view().data()));
        CHECK((got.is_copied() && got.device() == ferry::cpu));
        CHECK(element(w.sim, got.view(), 4) == 5);
        CHECK(producer.asked.placement == placement::any);
        CHECK(producer.asked.copy == copy_policy::if_needed);  // or it is copied twice
    }
    world w;
    arena target{w.sim, pinned};
    auto array = make(w.sim, knowing_space{&target}, ferry::already_ready);
    own_producer producer{array};
    ferry::destination const in_target{knowing_space{&target}, w.sim};
    request const req{.device = ferry::cpu, .copy = copy_policy::always, .placement = placement::exact};
    auto const got = ferry::from_dlpack<managed_tensor>(producer, req, in_target);
    CHECK(got.view().data() != array.memory.get());
}

TEST_CASE("D9: a tensor without elements lies in every space") {
    world w;
    arena target{w.sim, gpu};
    placed_array const empty{nullptr, gpu, ferry::already_ready, 0};
    ferry::destination const b{plain_space{&target}, w.sim};
    auto const got = ferry::to_dlpack(empty, {.copy = copy_policy::never, .placement = placement::exact}, b);
    CHECK((!got.is_copied() && target.allocated == 0));
}

TEST_CASE("D9: an exception of `contains` counts as a tensor that the space does not contain") {
    world w;
    arena target{w.sim, ferry::cpu};
    auto const array = make(w.sim, knowing_space{&target}, ferry::already_ready);
    target.throws_in_contains = true;
    ferry::destination const b{knowing_space{&target}, w.sim};
    CHECK(ferry::to_dlpack(array, {.placement = placement::exact}, b).is_copied());
    CHECK(target.asked == 1);
}

TEST_CASE("D9: an invalid tensor is not passed to `contains`, and is refused as without a placement") {
    world w;
    arena target{w.sim, ferry::cpu};
    auto array = make(w.sim, knowing_space{&target}, ferry::already_ready);
    array.extent = -1;
    ferry::destination const b{knowing_space{&target}, w.sim};
    fails(errc::shape, [&] { (void)ferry::to_dlpack(array, {.placement = placement::exact}, b); }, {"shape[0] is -1"});
    CHECK(target.asked == 0);
}

TEST_CASE("D9: placement::exact without a space is refused") {
    world w;
    arena target{w.sim, ferry::cpu};
    auto const array = make(w.sim, knowing_space{&target}, ferry::already_ready);
    for (auto const copy : {copy_policy::if_needed, copy_policy::always, copy_policy::never}) {
        request const req{.copy = copy, .placement = placement::exact};
        for (int i = 0; i < 4; ++i)
            fails(errc::argument,
                  [&] {
                      if (i == 0) (void)ferry::to_dlpack(array, req);
                      if (i == 1) (void)ferry::to_dlpack(array, req, w.sim);
                      if (i == 2) (void)ferry::from_dlpack<placed_array>(array, req, ferry::back_end_ref{w.sim});
                      if (i == 3) (void)ferry::to_dlpack(array, req, ferry::share_only);
                  },
                  {"placement::exact needs a memory space", "ferry::destination{space, back_end}"});
    }
}

TEST_CASE("D9a: a destination that never copies shares what its space contains, and refuses all else") {
    world w;
    arena target{w.sim, ferry::cpu}, other{w.sim, ferry::cpu};
    ferry::destination const b{knowing_space{&target}, ferry::share_only};
    auto const inside = make(w.sim, knowing_space{&target}, ferry::already_ready);
    CHECK(!ferry::to_dlpack(inside, {.placement = placement::exact}, b).is_copied());
    auto const outside = make(w.sim, knowing_space{&other}, ferry::already_ready);
    fails(errc::copy_needed, [&] { (void)ferry::to_dlpack(outside, {.placement = placement::exact}, b); },
          {"is needed and not permitted"});
}

TEST_CASE("D25: after a failed allocation, copy or wait, a moved array is unchanged and nothing is lost") {
    for (device const data : {ferry::cpu, gpu})
        for (device const space_on : {ferry::cpu, gpu, pinned})
            for (int kind = 0; kind < 4; ++kind) {
                world w;
                arena target{w.sim, space_on}, other{w.sim, data};
                {
                    auto array =
                        make(w.sim, knowing_space{&other}, data == ferry::cpu ? ferry::already_ready : w.theirs);
                    request req{.device = space_on == gpu ? gpu : ferry::cpu, .placement = placement::exact};
                    if (req.device == gpu) req.stream = w.ours;
                    constexpr verb verbs[] = {verb::copy, verb::wait, verb::order};
                    if (kind == 0) target.fail_at = 1;
                    else w.sim.fail_at(verbs[kind - 1], 1);
                    ferry::destination const b{knowing_space{&target}, w.sim};
                    auto const got = ferry::try_to_dlpack(std::move(array), req, b);
                    bool const waits = kind == 2 && data == gpu && space_on != gpu;
                    bool const orders = kind == 3 && data == gpu && space_on == gpu;
                    INFO("data on ", shown(ferry::name(data.type)), ", space on ", shown(ferry::name(space_on.type)),
                         ", ", kind);
                    CHECK(got.has_value() == !(kind < 2 || waits || orders));
                    if (!got) {
                        CHECK(got.error().code() == (kind == 0 ? errc::out_of_memory : errc::driver));
                        CHECK(array.memory != nullptr);
                        w.sim.finish(w.theirs);
                        CHECK(w.sim.read<float>(array.memory.get()) == 1);
                    }
                }
                CHECK(target.allocated == target.freed);
                CHECK(other.allocated == other.freed);
                CHECK(w.sim.live_bytes() == 0);
            }
}
