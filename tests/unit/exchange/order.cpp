// Exchanges on simulated devices: ordering, sharing and copies.
#include <support/sim_world.hpp>

#define WORLDS support::sim_world
#include <support/exchange_suite.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace {

/// Refers to an array that belongs to the caller.
struct array_reference {
    support::sim_array const* array;
};

/// An array in memory of a pool that is ordered on a stream.
struct pooled {
    support::sim_array array;
    static inline support::sim_system* pool = nullptr;
    static inline ferry::stream_token on{};
};

/// A consumer with a current stream, which also receives the stream on which a tensor is ready.
struct streaming {
    static inline ferry::stream_token current{};
    ferry::managed_tensor tensor;
};

}  // namespace

template <>
struct ferry::array_traits<streaming> {
    static streaming adopt(managed_tensor m) { return {std::move(m)}; }
    static stream_token current_stream(device) { return streaming::current; }
};

template <>
struct ferry::array_traits<array_reference> {
    static constexpr bool owns = false;
    static tensor_view view(array_reference const& a) { return array_traits<support::sim_array>::view(*a.array); }
    static stream_token ready_on(array_reference const& a) { return a.array->ready_on; }
};

template <>
struct ferry::array_traits<pooled> {
    static tensor_view view(pooled& a) { return array_traits<support::sim_array>::view(a.array); }
    static tensor_view view(pooled const& a) { return array_traits<support::sim_array>::view(a.array); }
    static pooled share(pooled const& a) { return a; }
    static stream_token ready_on(pooled const& a) { return a.array.ready_on; }
    static pooled allocate(data_type, shape_view shape, device d, stream_token on) {
        pooled::on = on;
        auto const bytes = static_cast<std::size_t>(shape[0] * shape[1]) * sizeof(float);
        return {{std::make_shared<support::sim_memory>(pooled::pool->make_memory(d, bytes)),
                 {shape.begin(), shape.end()},
                 {},
                 d,
                 on}};
    }
};

TEST_CASE("R53: allocate receives the stream that writes the copy, if it has a parameter for it") {
    using namespace support;
    sim_world w;
    pooled::pool = &w.back_end;
    auto theirs = w.closed(sim_world::gpu, w.theirs);
    pooled const array{theirs.array};
    auto const on_ours = ferry::to_dlpack(array, {.copy = copy_policy::always, .stream = w.ours}, w.back_end);
    CHECK(pooled::on == w.ours);
    auto const unordered =
        ferry::to_dlpack(array, {.copy = copy_policy::always, .stream = ferry::already_ready}, w.back_end);
    CHECK(pooled::on == w.theirs);
    theirs.gate.open();
    w.finish(w.ours);
    CHECK(w.value(on_ours.view(), 5) == 6.0f);
    auto const pinned = ferry::to_dlpack(array, {.device = sim_world::pinned}, w.back_end);
    CHECK(pooled::on == w.theirs);  // the host waits for it
    pooled const here{{std::make_shared<sim_memory>(w.back_end.make_memory(sim_world::pinned, 8)), {1, 2}, {},
                       sim_world::pinned, ferry::already_ready}};
    static_cast<void>(ferry::to_dlpack(here, {.copy = copy_policy::always}, w.back_end));
    CHECK(pooled::on.is_none());
    w.finish(w.theirs);
}

TEST_CASE("R50: a queued copy of an rvalue that does not own its elements reads them until the copy has run") {
    using namespace support;
    sim_world w;
    auto& sim = w.back_end;
    for (bool const is_valid : {true, false}) {
        auto theirs = w.closed(sim_world::gpu, w.theirs);
        auto const got =
            ferry::to_dlpack(array_reference{&theirs.array}, {.copy = copy_policy::always, .stream = w.ours}, sim);
        CHECK(!theirs.gate.is_open());  // the call has not waited
        if (!is_valid) theirs.array = {};
        theirs.gate.open();
        w.finish(w.ours);
        CHECK((sim.reads_after_release() == 0) == is_valid);
        if (is_valid) CHECK(w.value(got.view(), 5) == 6.0f);
    }
}

TEST_CASE("R50: without a stream in the request, a copy that cannot own its source is complete on return") {
    using namespace support;
    for (int how = 0; how < 6; ++how) {
        CAPTURE(how);
        sim_world w;
        auto& sim = w.back_end;
        streaming::current = w.ours;
        auto theirs = w.closed(sim_world::gpu, w.theirs);
        auto kept = ferry::to_dlpack(theirs.array, {.stream = w.theirs}, sim);
        array_reference lvalue{&theirs.array};
        managed_tensor got;
        {
            auto const other_thread = w.open_later(theirs.gate);
            request const always{.copy = copy_policy::always};
            if (how == 0) got = ferry::to_dlpack(lvalue, request{}, sim);
            if (how == 1) got = ferry::to_dlpack(array_reference{&theirs.array}, always, sim);
            if (how == 2) got = ferry::to_dlpack(kept.view(), request{}, sim, w.theirs);
            if (how == 3) got = ferry::to_dlpack(std::as_const(kept), always, sim, w.theirs);
            if (how == 4) got = ferry::from_dlpack<managed_tensor>(lvalue, request{}, sim);
            if (how == 5) got = ferry::from_dlpack<streaming>(lvalue, request{}, sim).tensor;
        }
        CHECK(sim.calls(verb::wait) == 1);
        theirs.array = {};
        kept = {};
        CHECK(sim.reads_after_release() == 0);
        CHECK(sim.races() == 0);
        CHECK(w.value(got.view(), 5) == 6.0f);
    }
}

TEST_CASE("R48: a copy to the CPU of an rvalue that does not own its elements is complete on return") {
    using namespace support;
    sim_world w;
    auto theirs = w.closed(sim_world::gpu, w.theirs);
    managed_tensor got;
    {
        auto const other_thread = w.open_later(theirs.gate);
        got = ferry::to_dlpack(array_reference{&theirs.array}, {.device = ferry::cpu, .copy = copy_policy::always},
                               w.back_end);
    }
    theirs.array = {};
    CHECK(w.back_end.reads_after_release() == 0);
    CHECK(got.as<float, 2>()(1, 2) == 6.0f);
}

TEST_CASE("R39: host access to device memory faults") {
    using namespace support;
    sim_world w;
    auto const theirs = w.closed(sim_world::gpu, w.theirs);
    CHECK(faults([&] { *static_cast<float volatile*>(theirs.array.first()) = 1.0f; }));
    auto const reached = w.closed(sim_world::managed, w.ours);
    theirs.gate.open();
    reached.gate.open();
    w.finish(w.ours);
    CHECK(!faults([&] { *static_cast<float volatile*>(reached.array.first()) = 1.0f; }));
}

TEST_CASE("R48: streams of a device other than the tensor's are refused, and the tensor is unchanged") {
    using namespace support;
    constexpr device gpu = sim_world::gpu, gpu1{device_type::cuda, 1};
    sim_system sim{gpu, gpu1};
    auto const here = sim.make_stream(gpu), there = sim.make_stream(gpu1);
    auto const array = make_array(sim, gpu1, there, {4});
    auto const refuses = [&](request const& req, stream_token ready_on) {
        auto tensor = ferry::to_dlpack(array, {.stream = stream_token::no_sync()});
        fails(errc::stream, [&] { (void)ferry::to_dlpack(std::move(tensor), req, sim, ready_on); },
              {"stream of another device"});
        CHECK(tensor.view().data() == array.first());
    };
    auto const legacy = stream_token::cuda_legacy_default(0), thread = stream_token::cuda_per_thread_default(0);
    for (auto const wrong : {here, legacy, thread}) {
        refuses({.stream = wrong}, there);                               // shared
        refuses({.copy = copy_policy::always, .stream = wrong}, there);  // copied on its device
        refuses({.stream = there}, wrong);                               // ready on a stream of another device
        refuses({.device = gpu, .stream = here}, wrong == here ? legacy : wrong);
        refuses({.device = ferry::cpu}, wrong);
    }
    refuses({.device = gpu, .stream = there}, there);  // equal streams, of the source only
    refuses({.device = gpu, .stream = there}, ferry::already_ready);
    CHECK(sim.live_bytes() == 4 * 4);
    auto const moved = ferry::to_dlpack(array, {.device = gpu, .stream = here}, sim);
    CHECK(sim.is_ordered(there, here));
    sim.finish(here);
    CHECK(element(sim, moved.view(), 3) == 4.0f);
    CHECK(ferry::to_dlpack(array, {.stream = there}, sim).device() == gpu1);
}
