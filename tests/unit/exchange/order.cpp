// Who waits for whom, proven by gates: a gate holds the producer's stream closed while the exchange runs.
#include <ferry/exchange/order.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <support/fails.hpp>
#include <support/sim_array.hpp>

#include <doctest/doctest.h>

#include <utility>

namespace {

using namespace support;

constexpr device gpu{device_type::cuda}, gpu1{device_type::cuda, 1}, pinned{device_type::cuda_host},
    managed{device_type::cuda_managed}, extension{device_type::ext_dev};
constexpr device everywhere[] = {gpu, pinned, managed, extension};

struct world {
    sim_system sim{gpu, gpu1, pinned, managed, extension};
    stream_token theirs, ours;
    sim_gate gate;
    sim_array array;

    /// An array of six elements that `theirs` writes once the gate is open.
    explicit world(device where)
        : theirs{sim.make_stream(where.type)},
          ours{sim.make_stream(where.type)},
          gate{sim.close(theirs)},
          array{make_array(sim, where, theirs, {2, 3})} {}
};

}  // namespace

TEST_CASE("R43: the consumer's stream is ordered after the producer's, and nothing blocks") {
    for (auto const where : everywhere) {
        CAPTURE(ferry::name(where.type));
        world w{where};
        auto const got = ferry::to_dlpack(w.array, {.stream = w.ours}, w.sim);  // returns: the gate is closed
        CHECK(!w.gate.is_open());
        CHECK(w.sim.is_ordered(w.theirs, w.ours));
        CHECK(w.sim.calls(verb::order) == 1);
        CHECK(w.sim.calls() == 1);
        w.gate.open();
        w.sim.finish(w.ours);
        CHECK(element(w.sim, got.view(), 5) == 6.0f);
    }
}

TEST_CASE("R43: equal streams cost no call of the driver") {
    for (auto const where : everywhere) {
        world w{where};
        auto const got = ferry::to_dlpack(w.array, {.stream = w.theirs}, w.sim);
        CHECK(w.sim.calls() == 0);
        CHECK(got.device() == where);
    }
}

TEST_CASE("R44: None is the legacy default stream, and it is ordered") {
    world w{gpu};
    auto const got = ferry::to_dlpack(w.array, {}, w.sim);
    CHECK(w.sim.is_ordered(w.theirs, stream_token::cuda_legacy_default()));
    CHECK(w.sim.calls(verb::order) == 1);
    auto const again = ferry::to_dlpack(w.array, {.stream = stream_token::cuda_per_thread_default()}, w.sim);
    CHECK(w.sim.is_ordered(w.theirs, stream_token::cuda_per_thread_default()));
    w.gate.open();
}

TEST_CASE("R44: -1 wants no synchronisation, and an array that is ready needs none") {
    for (auto const where : everywhere) {
        world w{where};
        auto const unsynchronised = ferry::to_dlpack(w.array, {.stream = stream_token::no_sync()}, w.sim);
        w.array.ready_on = ferry::already_ready;
        auto const ready = ferry::to_dlpack(w.array, {.stream = w.ours}, w.sim);
        CHECK(w.sim.calls() == 0);
    }
}

TEST_CASE("R48: pinned and managed memory goes to the CPU without a copy, finished when the call returns") {
    for (auto const where : {pinned, managed}) {
        world w{where};
        opener const other_thread{w.sim, w.gate};
        auto const got = ferry::to_dlpack(w.array, {.device = ferry::cpu}, w.sim);
        auto const values = got.as<float, 2>();
        CHECK(values(1, 2) == 6.0f);
        CHECK(got.device() == ferry::cpu);
        CHECK(got.view().data() == w.array.first());
        CHECK(!got.is_copied());
        CHECK(w.sim.calls(verb::wait) == 1);
        CHECK(w.sim.calls(verb::copy) == 0);
    }
}

TEST_CASE("R49: pinned and managed memory without a stream is finished when the call returns") {
    for (auto const where : {pinned, managed}) {
        world w{where};
        opener const other_thread{w.sim, w.gate};
        auto const got = ferry::to_dlpack(w.array, {}, w.sim);
        CHECK(got.as<float>()(0, 0) == 1.0f);
        CHECK(got.device() == where);
    }
}

TEST_CASE("R48: device memory is copied to the CPU, finished when the call returns") {
    for (auto const where : {gpu, extension}) {
        // R48: -1 is tolerated, and changes nothing.
        for (auto const stream : {stream_token{}, stream_token::no_sync()}) {
            world w{where};
            opener const other_thread{w.sim, w.gate};
            auto const got = ferry::to_dlpack(w.array, {.device = ferry::cpu, .stream = stream}, w.sim);
            CHECK(got.as<float>()(1, 2) == 6.0f);
            CHECK(got.is_copied());
            CHECK(w.sim.calls(verb::wait) == 1);
            CHECK(w.sim.calls(verb::order) == 0);
            CHECK(w.sim.races() == 0);
        }
    }
}

TEST_CASE("R43: a copy between devices is queued behind the producer's work, and nothing blocks") {
    world w{gpu};
    auto const got = ferry::to_dlpack(w.array, {.device = gpu1, .stream = w.ours}, w.sim);
    CHECK(!w.gate.is_open());
    CHECK(got.is_copied());
    CHECK(w.sim.is_ordered(w.theirs, w.ours));
    CHECK(w.sim.races() == 0);
    CHECK(element(w.sim, got.view(), 5) != 6.0f);
    w.gate.open();
    w.sim.finish(w.ours);
    CHECK(element(w.sim, got.view(), 5) == 6.0f);
}

TEST_CASE("R43: a copy on the producer's own stream needs no order") {
    world w{gpu};
    auto const got = ferry::to_dlpack(w.array, {.copy = copy_policy::always, .stream = w.theirs}, w.sim);
    CHECK(w.sim.calls(verb::order) == 0);
    CHECK(w.sim.calls(verb::copy) == 1);
    CHECK(w.sim.races() == 0);
    w.gate.open();
    w.sim.finish(w.theirs);
    CHECK(element(w.sim, got.view(), 0) == 1.0f);
}

TEST_CASE("R48: with a target of pinned or managed memory and a stream, the copy is asynchronous on that stream") {
    for (auto const target : {pinned, managed}) {
        world w{gpu};
        auto const got = ferry::to_dlpack(w.array, {.device = target, .stream = w.ours}, w.sim);
        CHECK(!w.gate.is_open());
        CHECK(w.sim.calls(verb::wait) == 0);
        w.gate.open();
        w.sim.finish(w.ours);
        CHECK(got.as<float>()(1, 1) == 5.0f);
        CHECK(w.sim.races() == 0);
    }
}

TEST_CASE("R49: without a stream, a copy to pinned memory is finished when the call returns") {
    world w{gpu};
    opener const other_thread{w.sim, w.gate};
    auto const got = ferry::to_dlpack(w.array, {.device = pinned}, w.sim);
    CHECK(got.as<float>()(1, 1) == 5.0f);
}

TEST_CASE("R44: with -1, a copy is queued on the producer's stream") {
    world w{gpu};
    auto const got = ferry::to_dlpack(w.array, {.copy = copy_policy::always, .stream = stream_token::no_sync()}, w.sim);
    CHECK(w.sim.calls(verb::order) + w.sim.calls(verb::wait) == 0);
    CHECK(w.sim.races() == 0);
    w.gate.open();
    w.sim.finish(w.theirs);
    CHECK(element(w.sim, got.view(), 3) == 4.0f);
}

TEST_CASE("R50: a queued copy keeps its source alive, whoever owned it") {
    for (int how = 0; how < 3; ++how) {
        CAPTURE(how);
        world w{gpu};
        ferry::request const wish{.device = gpu1, .stream = w.ours};
        managed_tensor got;
        if (how == 0) got = ferry::to_dlpack(std::move(w.array), wish, w.sim);
        if (how == 1) got = ferry::to_dlpack(w.array, wish, w.sim);
        if (how == 2)
            got = ferry::to_dlpack(ferry::to_dlpack(w.array, {.stream = w.theirs}, w.sim), wish, w.sim, w.theirs);
        w.array = {};  // the last handle that the caller has
        CHECK(w.sim.live_bytes() == 2 * 6 * 4);
        w.gate.open();
        w.sim.finish(w.ours);
        CHECK(w.sim.reads_after_release() == 0);
        CHECK(element(w.sim, got.view(), 5) == 6.0f);
        got = {};
        CHECK(w.sim.live_bytes() == 0);
    }
}

TEST_CASE("R50: a finished copy gives its source back at once") {
    world w{gpu};
    w.gate.open();
    auto tensor = ferry::to_dlpack(std::move(w.array), {.stream = w.theirs}, w.sim);
    auto const got = ferry::to_dlpack(std::move(tensor), {.device = ferry::cpu}, w.sim, w.theirs);
    CHECK(!tensor);
    CHECK(got.as<float>()(0, 0) == 1.0f);
    CHECK(w.sim.live_bytes() == 6 * 4);  // the copy's, which the simulation also counts
}

TEST_CASE("R44: a copy from one GPU to another is ordered between their default streams, which are two") {
    sim_system sim{gpu, gpu1};
    auto const first = stream_token::cuda_legacy_default(0), second = stream_token::cuda_legacy_default(1);
    auto const gate = sim.close(first);
    auto const array = make_array(sim, gpu, first, {4});
    auto const got = ferry::to_dlpack(array, {.device = gpu1}, sim);
    CHECK(sim.is_ordered(first, second));
    CHECK(sim.races() == 0);
    gate.open();
    sim.finish(second);
    CHECK(element(sim, got.view(), 3) == 4.0f);
}

TEST_CASE("R48: streams of another device than the tensor's are refused, and the tensor is still the caller's") {
    sim_system sim{gpu, gpu1};
    auto const here = sim.make_stream(gpu), there = sim.make_stream(gpu1);
    auto const array = make_array(sim, gpu1, there, {4});
    auto const refuses = [&](request const& wish, stream_token ready_on) {
        auto tensor = ferry::to_dlpack(array, {.stream = stream_token::no_sync()});
        fails(errc::stream, [&] { (void)ferry::to_dlpack(std::move(tensor), wish, sim, ready_on); },
              {"stream of another device"});
        CHECK(tensor.view().data() == array.first());
    };
    auto const legacy = stream_token::cuda_legacy_default(0), thread = stream_token::cuda_per_thread_default(0);
    for (auto const wrong : {here, legacy, thread}) {
        refuses({.stream = wrong}, there);                               // shared
        refuses({.copy = copy_policy::always, .stream = wrong}, there);  // copied where it is
        refuses({.stream = there}, wrong);                               // ready where it cannot be
        refuses({.device = gpu, .stream = here}, wrong == here ? legacy : wrong);
        refuses({.device = ferry::cpu}, wrong);
    }
    refuses({.device = gpu, .stream = there}, there);  // equal, and of the source alone
    refuses({.device = gpu, .stream = there}, ferry::already_ready);
    CHECK(sim.live_bytes() == 4 * 4);
    auto const moved = ferry::to_dlpack(array, {.device = gpu, .stream = here}, sim);
    CHECK(sim.is_ordered(there, here));
    sim.finish(here);
    CHECK(element(sim, moved.view(), 3) == 4.0f);
    CHECK(ferry::to_dlpack(array, {.stream = there}, sim).device() == gpu1);
}

TEST_CASE("R43: a wait for a stream that nobody named is refused with the cure") {
    world w{gpu};
    w.array.ready_on = {};
    fails(errc::stream, [&] { (void)ferry::to_dlpack(w.array, {.device = ferry::cpu}, w.sim); },
          {"nobody said on which stream the data is ready", "array_traits::ready_on", "already_ready"});
    CHECK(w.sim.calls() == 0);
}

TEST_CASE("R43: streams of another family are refused, on either side") {
    world w{gpu};
    auto const foreign = w.sim.make_stream(device_type::ext_dev);
    fails(errc::stream, [&] { (void)ferry::to_dlpack(w.array, {.stream = foreign}, w.sim); },
          {"another kind of device"});
    w.array.ready_on = foreign;
    fails(errc::stream, [&] { (void)ferry::to_dlpack(w.array, {.device = ferry::cpu}, w.sim); },
          {"another kind of device"});
    CHECK(w.sim.calls() == 0);
}

TEST_CASE("R40: without a back end, waits and copies off the host name the header to include") {
    world w{gpu};
    fails(errc::no_backend, [&] { (void)ferry::to_dlpack(w.array, {.device = ferry::cpu}); },
          {"cuda:0", "<ferry/cuda.hpp>", "ferry::cuda::system"});
    fails(errc::no_backend, [&] { (void)ferry::to_dlpack(w.array, {.stream = w.ours}); }, {"<ferry/cuda.hpp>"});
    world x{extension};
    fails(errc::no_backend, [&] { (void)ferry::to_dlpack(x.array, {.device = ferry::cpu}); },
          {"ext_dev:0", "pass a back end"});
    CHECK(ferry::to_dlpack(w.array, {.stream = w.theirs}).device() == gpu);  // nothing to do, nothing needed
}

TEST_CASE("R43: order() of a stream with itself, or with nothing, is no call") {
    world w{gpu};
    ferry::order(w.theirs, w.theirs, w.sim);
    ferry::order(ferry::already_ready, w.ours, w.sim);
    ferry::order(w.theirs, {}, w.sim);
    CHECK(w.sim.calls() == 0);
    ferry::order(w.theirs, w.ours, w.sim);
    CHECK(w.sim.is_ordered(w.theirs, w.ours));
    w.gate.open();
}

TEST_CASE("R39: the host cannot touch device memory, and the type says so before it faults") {
    world w{gpu};
    auto const got = ferry::to_dlpack(w.array, {.stream = w.theirs}, w.sim);
    fails(errc::not_accessible, [&] { (void)got.as<float>(); });
    CHECK(faults([&] { *static_cast<float volatile*>(got.view().data()) = 1.0f; }));
    world x{managed};
    x.gate.open();
    x.sim.finish(x.theirs);
    CHECK(!faults([&] { *static_cast<float volatile*>(x.array.first()) = 1.0f; }));
}
