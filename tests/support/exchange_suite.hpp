// Tests of exchanges on every device, simulated or real: stream ordering, shown by gates that block the producer's
// stream during the exchange; sharing; and copies.
//
// Define WORLDS as the list of environments before including this header. An environment is constructed for a device:
//   back_end                  the back end for exchanges
//   theirs, ours              the producer's and the consumer's stream; ours_of(device): one of that device
//   closed(device, stream)    an array of 1, 2, 3, … that the stream writes when the gate is open, and the gate
//   open_later(gate)          a scope in which another thread opens the gate, when the host waits or after a time limit
//   finish(stream)            waits for the stream
//   value(view, i)            an element as the device reads it
//   probe(f)                  calls f(simulation), if there is one, for facts that a real device does not provide
#pragma once

#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/exchange/to_host.hpp>
#include <ferry/space/detail/operations.hpp>
#include <support/fails.hpp>
#include <support/verb.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <source_location>
#include <thread>
#include <utility>

namespace exchange_suite {

using ferry::copy_policy;
using ferry::errc;
using ferry::managed_tensor;
using ferry::request;
using ferry::stream_token;
using support::fails;
using support::verb;

/// A producer that records the requests and ignores them.
template <class Array>
struct stubborn {
    Array array;
    request asked{};
    int times = 0;

    managed_tensor ferry_export(request const& req) {
        asked = req;
        ++times;
        ferry::tensor_view const v = ferry::view_of(array);
        return ferry::make_managed(Array{array}, [](Array& a) { return ferry::view_of(a); }, v.flags());
    }
};
template <class Array>
stubborn(Array) -> stubborn<Array>;

/// A consumer with adopt only, and one with a current stream.
struct taker {
    managed_tensor tensor;
};
struct streaming {
    static inline stream_token current{};
    managed_tensor tensor;
};

}  // namespace exchange_suite

template <>
struct ferry::array_traits<exchange_suite::taker> {
    static exchange_suite::taker adopt(managed_tensor m) { return {std::move(m)}; }
};
template <>
struct ferry::array_traits<exchange_suite::streaming> {
    static exchange_suite::streaming adopt(managed_tensor m) { return {std::move(m)}; }
    static stream_token current_stream(device) { return exchange_suite::streaming::current; }
};

namespace exchange_suite {

TEST_CASE_TEMPLATE("R43: the consumer's stream is ordered after the producer's, without blocking the host", World,
                   WORLDS) {
    for (auto const where : World::everywhere) {
        CAPTURE(ferry::name(where.type));
        World w{where};
        auto theirs = w.closed(where, w.theirs);
        auto const got = ferry::to_dlpack(theirs.array, {.stream = w.ours}, w.back_end);  // does not block
        CHECK(!theirs.gate.is_open());
        w.probe([&](auto& sim) {
            CHECK(sim.is_ordered(w.theirs, w.ours));
            CHECK(sim.calls(verb::order) == 1);
            CHECK(sim.calls() == 1);
        });
        theirs.gate.open();
        w.finish(w.ours);
        CHECK(w.value(got.view(), 5) == 6.0f);
    }
}

TEST_CASE_TEMPLATE("R43: equal streams make no driver call", World, WORLDS) {
    for (auto const where : World::everywhere) {
        World w{where};
        auto theirs = w.closed(where, w.theirs);
        auto const got = ferry::to_dlpack(theirs.array, {.stream = w.theirs}, w.back_end);
        w.probe([](auto& sim) { CHECK(sim.calls() == 0); });
        CHECK(!theirs.gate.is_open());
        CHECK(got.device() == where);
        theirs.gate.open();
    }
}

TEST_CASE_TEMPLATE("R44: no stream means the legacy default stream, which is ordered", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs);
    auto const legacy = stream_token::cuda_legacy_default(), thread = stream_token::cuda_per_thread_default();
    auto const got = ferry::to_dlpack(theirs.array, {}, w.back_end);
    w.probe([&](auto& sim) {
        CHECK(sim.is_ordered(w.theirs, legacy));
        CHECK(sim.calls(verb::order) == 1);
    });
    auto const again = ferry::to_dlpack(theirs.array, {.stream = thread}, w.back_end);
    w.probe([&](auto& sim) { CHECK(sim.is_ordered(w.theirs, thread)); });
    CHECK(!theirs.gate.is_open());
    theirs.gate.open();
    w.finish(legacy);
    CHECK(w.value(got.view(), 5) == 6.0f);
    w.finish(thread);
    CHECK(w.value(again.view(), 5) == 6.0f);
}

TEST_CASE_TEMPLATE("R44: nothing is ordered for -1, and for an array that is ready", World, WORLDS) {
    for (auto const where : World::everywhere) {
        World w{where};
        auto theirs = w.closed(where, w.theirs);
        auto const unsynchronised = ferry::to_dlpack(theirs.array, {.stream = stream_token::no_sync()}, w.back_end);
        theirs.array.ready_on = ferry::already_ready;
        auto const ready = ferry::to_dlpack(theirs.array, {.stream = w.ours}, w.back_end);
        w.probe([](auto& sim) { CHECK(sim.calls() == 0); });
        w.finish(w.ours);  // returns: nothing to wait for
        CHECK(!theirs.gate.is_open());
        theirs.gate.open();
    }
}

TEST_CASE_TEMPLATE("R48: pinned and managed memory is exported to the CPU without a copy, complete on return",
                   World, WORLDS) {
    for (auto const where : {World::pinned, World::managed}) {
        World w{where};
        auto theirs = w.closed(where, w.theirs);
        auto const other_thread = w.open_later(theirs.gate);
        auto const got = ferry::to_dlpack(theirs.array, {.device = ferry::cpu}, w.back_end);
        auto const values = got.template as<float, 2>();
        CHECK(values(1, 2) == 6.0f);
        CHECK(got.device() == ferry::cpu);
        CHECK(got.view().data() == theirs.array.first());
        CHECK(!got.is_copied());
        w.probe([](auto& sim) {
            CHECK(sim.calls(verb::wait) == 1);
            CHECK(sim.calls(verb::copy) == 0);
        });
    }
}

TEST_CASE_TEMPLATE("R49: pinned and managed memory without a stream is complete on return", World, WORLDS) {
    for (auto const where : {World::pinned, World::managed}) {
        World w{where};
        auto theirs = w.closed(where, w.theirs);
        auto const other_thread = w.open_later(theirs.gate);
        auto const got = ferry::to_dlpack(theirs.array, {}, w.back_end);
        CHECK(got.template as<float>()(0, 0) == 1.0f);
        CHECK(got.device() == where);
    }
}

TEST_CASE_TEMPLATE("R48: device memory is copied to the CPU, complete on return", World, WORLDS) {
    for (auto const where : World::far) {
        // R48: -1 is accepted and has no effect.
        for (auto const stream : {stream_token{}, stream_token::no_sync()}) {
            World w{where};
            auto theirs = w.closed(where, w.theirs);
            auto const other_thread = w.open_later(theirs.gate);
            auto const got = ferry::to_dlpack(theirs.array, {.device = ferry::cpu, .stream = stream}, w.back_end);
            CHECK(got.template as<float>()(1, 2) == 6.0f);
            CHECK(got.is_copied());
            w.probe([](auto& sim) {
                CHECK(sim.calls(verb::wait) == 1);
                CHECK(sim.calls(verb::order) == 0);
                CHECK(sim.races() == 0);
            });
        }
    }
}

TEST_CASE_TEMPLATE("R43: a copy on the consumer's stream is ordered after the producer's work, without blocking",
                   World, WORLDS) {
    for (bool const there : {false, true}) {
        if (there && !World::has_other_gpu()) continue;
        World w{World::gpu};
        auto theirs = w.closed(World::gpu, w.theirs);
        auto const to = there ? World::other_gpu : World::gpu;
        auto const ours = w.ours_of(to);
        auto const got =
            ferry::to_dlpack(theirs.array, {.device = to, .copy = copy_policy::always, .stream = ours}, w.back_end);
        CHECK(!theirs.gate.is_open());
        CHECK(got.is_copied());
        CHECK(got.device() == to);
        w.probe([&](auto& sim) {
            CHECK(sim.is_ordered(w.theirs, ours));
            CHECK(sim.races() == 0);
            CHECK(w.value(got.view(), 5) != 6.0f);
        });
        theirs.gate.open();
        w.finish(ours);
        CHECK(w.value(got.view(), 5) == 6.0f);
    }
}

TEST_CASE_TEMPLATE("R43: a copy on the producer's stream makes no ordering call", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs);
    auto const got = ferry::to_dlpack(theirs.array, {.copy = copy_policy::always, .stream = w.theirs}, w.back_end);
    w.probe([](auto& sim) {
        CHECK(sim.calls(verb::order) == 0);
        CHECK(sim.calls(verb::copy) == 1);
        CHECK(sim.races() == 0);
    });
    CHECK(!theirs.gate.is_open());
    theirs.gate.open();
    w.finish(w.theirs);
    CHECK(w.value(got.view(), 0) == 1.0f);
}

TEST_CASE_TEMPLATE(
    "R48: with a target of pinned or managed memory and a stream, the copy is asynchronous on that stream", World,
    WORLDS) {
    for (auto const target : {World::pinned, World::managed}) {
        World w{World::gpu};
        auto theirs = w.closed(World::gpu, w.theirs);
        [[maybe_unused]] auto const other_thread = w.open_later_for_memory(theirs.gate);
        auto const got = ferry::to_dlpack(theirs.array, {.device = target, .stream = w.ours}, w.back_end);
        w.probe([&](auto& sim) {
            CHECK(!theirs.gate.is_open());
            CHECK(sim.calls(verb::wait) == 0);
        });
        theirs.gate.open();
        w.finish(w.ours);
        CHECK(got.template as<float>()(1, 1) == 5.0f);
        w.probe([](auto& sim) { CHECK(sim.races() == 0); });
    }
}

TEST_CASE_TEMPLATE("R49: without a stream, a copy to pinned memory is complete on return", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs);
    auto const other_thread = w.open_later(theirs.gate);
    auto const got = ferry::to_dlpack(theirs.array, {.device = World::pinned}, w.back_end);
    CHECK(got.template as<float>()(1, 1) == 5.0f);
}

TEST_CASE_TEMPLATE("R44: with -1, a copy is queued on the producer's stream", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs);
    auto const got =
        ferry::to_dlpack(theirs.array, {.copy = copy_policy::always, .stream = stream_token::no_sync()}, w.back_end);
    w.probe([](auto& sim) {
        CHECK(sim.calls(verb::order) + sim.calls(verb::wait) == 0);
        CHECK(sim.races() == 0);
    });
    CHECK(!theirs.gate.is_open());
    theirs.gate.open();
    w.finish(w.theirs);
    CHECK(w.value(got.view(), 3) == 4.0f);
}

TEST_CASE_TEMPLATE("R50: a queued copy keeps its source alive", World, WORLDS) {
    for (int how = 0; how < 3; ++how) {
        CAPTURE(how);
        World w{World::gpu};
        auto theirs = w.closed(World::gpu, w.theirs);
        auto const to = World::has_other_gpu() ? World::other_gpu : World::gpu;
        auto const ours = w.ours_of(to);
        request const req{.device = to, .copy = copy_policy::always, .stream = ours};
        managed_tensor got;
        if (how == 0) got = ferry::to_dlpack(std::move(theirs.array), req, w.back_end);
        if (how == 1) got = ferry::to_dlpack(theirs.array, req, w.back_end);
        if (how == 2)
            got = ferry::to_dlpack(ferry::to_dlpack(theirs.array, {.stream = w.theirs}, w.back_end), req, w.back_end,
                                   w.theirs);
        theirs.array = {};  // the caller's last handle
        w.probe([](auto& sim) { CHECK(sim.live_bytes() == 2 * 6 * 4); });
        CHECK(!theirs.gate.is_open());
        theirs.gate.open();
        w.finish(ours);
        w.probe([](auto& sim) { CHECK(sim.reads_after_release() == 0); });
        CHECK(w.value(got.view(), 5) == 6.0f);
        got = {};
        w.probe([](auto& sim) { CHECK(sim.live_bytes() == 0); });
    }
}

TEST_CASE_TEMPLATE("R50: a queued copy that is never imported runs before its memory and its source are released", World,
                   WORLDS) {
    for (auto const to : {World::gpu, World::pinned}) {
        World w{World::gpu};
        auto theirs = w.closed(World::gpu, w.theirs);
        std::weak_ptr<void> const source = theirs.array.memory;
        [[maybe_unused]] auto const for_memory = w.open_later_for_memory(theirs.gate);
        auto got = ferry::to_dlpack(std::move(theirs.array),
                                    {.device = to, .copy = copy_policy::always, .stream = w.ours}, w.back_end);
        std::atomic<bool> is_gone = false;
        std::thread drops{[&] {
            got = {};
            is_gone = true;
        }};
        w.probe([&](auto& sim) {
            sim.until_host_waits();
            CHECK(!is_gone);
            CHECK(sim.live_bytes() == 2 * 6 * 4);
        });
        for (int i = 0; i < 100 && !is_gone; ++i) std::this_thread::sleep_for(std::chrono::milliseconds{1});
        bool const went_early = source.expired() && !theirs.gate.is_open();
        CHECK(!went_early);
        theirs.gate.open();
        drops.join();
        CHECK(source.expired());
        w.probe([](auto& sim) {
            CHECK(sim.reads_after_release() == 0);
            CHECK(sim.live_bytes() == 0);
        });
        w.finish(w.ours);
    }
}

TEST_CASE_TEMPLATE("R50: a complete copy releases its source at once", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs);
    theirs.gate.open();
    std::weak_ptr<void> const source = theirs.array.memory;
    auto tensor = ferry::to_dlpack(std::move(theirs.array), {.stream = w.theirs}, w.back_end);
    auto const got = ferry::to_dlpack(std::move(tensor), {.device = ferry::cpu}, w.back_end, w.theirs);
    CHECK(!tensor);
    CHECK(source.expired());
    CHECK(got.template as<float>()(0, 0) == 1.0f);
    w.probe([](auto& sim) { CHECK(sim.live_bytes() == 6 * 4); });  // the copy, which the simulation counts as well
}

TEST_CASE_TEMPLATE("R44: a copy from one GPU to another is ordered between the default streams of both", World,
                   WORLDS) {
    if (!World::has_other_gpu()) return;
    World w{World::gpu};
    auto const first = stream_token::cuda_legacy_default(0), second = stream_token::cuda_legacy_default(1);
    auto theirs = w.closed(World::gpu, first);
    auto const got = ferry::to_dlpack(theirs.array, {.device = World::other_gpu}, w.back_end);
    w.probe([&](auto& sim) {
        CHECK(sim.is_ordered(first, second));
        CHECK(sim.races() == 0);
    });
    theirs.gate.open();
    w.finish(second);
    CHECK(w.value(got.view(), 3) == 4.0f);
}

TEST_CASE_TEMPLATE("R43: the error for device data without a stream says what to define", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs);
    theirs.array.ready_on = {};
    fails(errc::stream, [&] { (void)ferry::to_dlpack(theirs.array, {.device = ferry::cpu}, w.back_end); },
          {"the stream on which the data is ready is unknown", "array_traits::ready_on", "already_ready"});
    w.probe([](auto& sim) { CHECK(sim.calls() == 0); });
    theirs.gate.open();
}

TEST_CASE_TEMPLATE("R43: streams of another device family are rejected on both sides", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs);
    auto const foreign = w.foreign_stream();
    fails(errc::stream, [&] { (void)ferry::to_dlpack(theirs.array, {.stream = foreign}, w.back_end); },
          {"a different type of device"});
    theirs.array.ready_on = foreign;
    fails(errc::stream, [&] { (void)ferry::to_dlpack(theirs.array, {.device = ferry::cpu}, w.back_end); },
          {"a different type of device"});
    w.probe([](auto& sim) { CHECK(sim.calls() == 0); });
    theirs.gate.open();
}

TEST_CASE_TEMPLATE("R40: the error for device data without a back end names the header to include", World, WORLDS) {
    for (auto const where : World::far) {
        World w{where};
        auto theirs = w.closed(where, w.theirs);
        char const* const cure = where == World::gpu ? "<ferry/cuda.hpp>" : "pass a back end";
        fails(errc::no_backend, [&] { (void)ferry::to_dlpack(theirs.array, {.device = ferry::cpu}); },
              {where == World::gpu ? "cuda:0" : "ext_dev:0", cure});
        fails(errc::no_backend, [&] { (void)ferry::to_dlpack(theirs.array, {.stream = w.ours}); }, {cure});
        CHECK(ferry::to_dlpack(theirs.array, {.stream = w.theirs}).device() == where);  // no wait and no copy needed
        theirs.gate.open();
    }
}

TEST_CASE_TEMPLATE("R43: an order of equal streams, or without a stream, makes no call", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs);
    auto const order = [&](ferry::stream_token from, ferry::stream_token to) {
        ferry::detail::record record{"test", std::source_location::current()};
        CHECK(ferry::detail::order_streams(from, to, w.back_end, record));
    };
    order(w.theirs, w.theirs);
    order(ferry::already_ready, w.ours);
    order(w.theirs, {});
    w.probe([](auto& sim) { CHECK(sim.calls() == 0); });
    w.finish(w.ours);  // returns: nothing to wait for
    order(w.theirs, w.ours);
    w.probe([&](auto& sim) { CHECK(sim.is_ordered(w.theirs, w.ours)); });
    CHECK(!theirs.gate.is_open());
    theirs.gate.open();
}

TEST_CASE_TEMPLATE("R39: host access to device memory is rejected before it faults", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs);
    auto const got = ferry::to_dlpack(theirs.array, {.stream = w.theirs}, w.back_end);
    fails(errc::not_accessible, [&] { (void)got.template as<float>(); });
    theirs.gate.open();
}

TEST_CASE_TEMPLATE("R48: to_host returns complete data for every kind of memory and every producer's stream", World,
                   WORLDS) {
    for (auto const where : World::everywhere) {
        CAPTURE(ferry::name(where.type));
        World w{where};
        auto theirs = w.closed(where, w.theirs);
        auto const other_thread = w.open_later(theirs.gate);
        auto const got = ferry::to_host(theirs.array, w.back_end);
        CHECK(got.template as<float const, 2>()(1, 2) == 6.0f);
        CHECK(got.device() == ferry::cpu);
        CHECK(got.is_copied() == !ferry::is_host_accessible(where));  // R39
        w.probe([](auto& sim) {
            CHECK(sim.calls(verb::wait) == 1);
            CHECK(sim.races() == 0);
        });
    }
}

TEST_CASE_TEMPLATE("R48: to_host of a tensor waits for the stream on which it is ready, and releases its memory",
                   World, WORLDS) {
    for (auto const where : World::everywhere) {
        World w{where};
        auto theirs = w.closed(where, w.theirs, {4});
        std::weak_ptr<void> const source = theirs.array.memory;
        auto bare = ferry::to_dlpack(std::move(theirs.array), {.stream = w.theirs}, w.back_end);
        auto const other_thread = w.open_later(theirs.gate);
        auto const got = ferry::to_host(std::move(bare), w.back_end, w.theirs);
        CHECK(got.template as<float, 1>()(3) == 4.0f);
        CHECK(!bare);
        CHECK(source.expired() == !ferry::is_host_accessible(where));
        w.probe([](auto& sim) { CHECK(sim.live_bytes() == 16); });
    }
}

TEST_CASE_TEMPLATE("R48: to_host of a tensor without pending work waits for no stream", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs, {4});
    auto bare = ferry::to_dlpack(theirs.array, {.stream = w.theirs}, w.back_end);
    theirs.gate.open();
    w.finish(w.theirs);
    auto const later = w.closed(World::gpu, w.theirs, {4});
    auto const got = ferry::to_host(std::move(bare), w.back_end, ferry::already_ready);
    CHECK(!later.gate.is_open());
    CHECK(got.template as<float, 1>()(3) == 4.0f);
    w.probe([](auto& sim) {
        CHECK(sim.calls(verb::wait) + sim.calls(verb::order) == 0);
        CHECK(sim.races() == 0);
    });
    later.gate.open();
}

TEST_CASE_TEMPLATE("R12: pinned and managed memory exported as CPU memory keeps its flags and its single owner",
                   World, WORLDS) {
    for (auto const where : {World::pinned, World::managed}) {
        World w{where};
        {
            auto const theirs = w.closed(where, w.ours, {4});
            theirs.gate.open();
            auto copied = ferry::to_dlpack(theirs.array, {.copy = copy_policy::always, .stream = w.ours}, w.back_end);
            auto const host = ferry::to_dlpack(std::move(copied), {.device = ferry::cpu}, w.back_end, w.ours);
            CHECK(host.is_copied());
            CHECK(host.device() == ferry::cpu);
            CHECK(host.template as<float, 1>()(3) == 4.0f);
            auto const shared = ferry::to_dlpack(theirs.array, {.device = ferry::cpu}, w.back_end);
            CHECK(shared.is_read_only());
            CHECK(!shared.is_copied());
        }
        w.probe([](auto& sim) { CHECK(sim.live_bytes() == 0); });
    }
}

TEST_CASE_TEMPLATE("R53: a strided array on a device is copied to a compact one, by one call", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs, {3, 4});
    theirs.gate.open();
    theirs.array.shape = {4, 3};
    theirs.array.strides = {1, 4};
    request const row_major{.device = ferry::cpu, .layout = ferry::layout::contiguous};
    auto const got = ferry::to_dlpack(theirs.array, row_major, w.back_end);
    w.probe([](auto& sim) { CHECK(sim.calls(verb::copy) == 1); });
    auto const values = got.template as<float, 2, ferry::access_from::host, ferry::layout::contiguous>();
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 3; ++k) CHECK(values(i, k) == static_cast<float>(1 + 4 * k + i));
}

TEST_CASE_TEMPLATE("R26: an empty tensor is exported to another device without a copy", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs, {3});
    theirs.array.shape = {0, 3};
    auto const got = ferry::to_dlpack(theirs.array, {.device = ferry::cpu}, w.back_end);
    CHECK(!theirs.gate.is_open());
    CHECK(got.is_copied());
    CHECK(got.view().data() == nullptr);
    w.probe([](auto& sim) { CHECK(sim.calls(verb::copy) + sim.calls(verb::wait) == 0); });
    theirs.gate.open();
}

TEST_CASE_TEMPLATE(
    "R56: the request is passed to the producer, and the consumer does what the producer ignores", World,
    WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, stream_token::cuda_legacy_default(), {4});
    stubborn p{theirs.array};
    auto const other_thread = w.open_later(theirs.gate);
    auto const got = ferry::from_dlpack<taker>(p, {.device = ferry::cpu, .copy = copy_policy::always}, w.back_end);
    CHECK(p.times == 1);
    CHECK(p.asked.device == ferry::cpu);
    CHECK(p.asked.copy == copy_policy::always);
    CHECK(got.tensor.is_copied());
    CHECK(got.tensor.template as<float, 1>()(3) == 4.0f);
    w.probe([](auto& sim) { CHECK(sim.races() == 0); });
}

TEST_CASE_TEMPLATE("R58: a consumer does not copy under copy=False", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs, {4});
    stubborn p{std::move(theirs.array)};
    fails(errc::copy_needed,
          [&] { (void)ferry::from_dlpack<taker>(p, {.device = ferry::cpu, .copy = copy_policy::never}, w.back_end); });
    CHECK(p.array.memory.use_count() == 1);
    theirs.gate.open();
    w.finish(w.theirs);
    p = {};
    w.probe([](auto& sim) { CHECK(sim.live_bytes() == 0); });
}

TEST_CASE_TEMPLATE("R12: the result of a producer that copied is not copied again", World, WORLDS) {
    World w{World::gpu};
    auto const theirs = w.closed(World::gpu, w.theirs, {4});
    struct obliging {
        typename World::array_type const& array;
        World& w;
        void const* gave = nullptr;
        managed_tensor ferry_export(request const& req) {
            auto made = ferry::to_dlpack(array, req, w.back_end);
            gave = made.view().data();
            return made;
        }
    } p{theirs.array, w};
    auto const got = ferry::from_dlpack<taker>(p, {.copy = copy_policy::always, .stream = w.theirs}, w.back_end);
    CHECK(got.tensor.is_copied());
    CHECK(got.tensor.view().data() == p.gave);
    w.probe([](auto& sim) { CHECK(sim.calls(verb::copy) == 1); });
    theirs.gate.open();
}

TEST_CASE_TEMPLATE("R48: -1 is not passed to the producer with device=cpu", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, stream_token::cuda_legacy_default(), {4});
    stubborn p{theirs.array};
    auto const other_thread = w.open_later(theirs.gate);
    auto const got =
        ferry::from_dlpack<taker>(p, {.device = ferry::cpu, .stream = stream_token::no_sync()}, w.back_end);
    CHECK(p.asked.stream.is_none());
    CHECK(got.tensor.template as<float, 1>()(0) == 1.0f);
    w.probe([](auto& sim) {
        CHECK(sim.calls(verb::wait) == 1);
        CHECK(sim.races() == 0);
    });
}

TEST_CASE_TEMPLATE("R43: a consumer with a current stream requests it, and the import is ordered on it", World,
                   WORLDS) {
    World w{World::gpu};
    streaming::current = w.ours;
    auto theirs = w.closed(World::gpu, w.theirs, {4});
    auto const got = ferry::from_dlpack<streaming>(theirs.array, request{}, w.back_end);
    w.probe([&](auto& sim) {
        CHECK(sim.is_ordered(w.theirs, w.ours));
        CHECK(sim.calls() == 1);
    });
    CHECK(!theirs.gate.is_open());
    theirs.gate.open();
    w.finish(w.ours);
    CHECK(w.value(got.tensor.view(), 3) == 4.0f);
}

TEST_CASE_TEMPLATE("R43: a device tensor without a producer requires a stream", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, w.theirs, {4});
    auto bare = ferry::to_dlpack(theirs.array, {.stream = w.theirs}, w.back_end);
    fails(errc::stream, [&] { (void)ferry::from_dlpack<taker>(std::move(bare), {.device = ferry::cpu}, w.back_end); },
          {"is ready is unknown"});
    CHECK(static_cast<bool>(bare));
    auto const other_thread = w.open_later(theirs.gate);
    auto const got = ferry::from_dlpack<taker>(std::move(bare), {.device = ferry::cpu}, w.back_end, w.theirs);
    CHECK(got.tensor.template as<float, 1>()(2) == 3.0f);
    CHECK(!bare);
}

TEST_CASE_TEMPLATE("R53: an lvalue is imported by sharing, an rvalue by moving", World, WORLDS) {
    World w{World::gpu};
    auto theirs = w.closed(World::gpu, stream_token::cuda_legacy_default(), {4});
    {
        auto const shared = ferry::from_dlpack<managed_tensor>(theirs.array);
        CHECK(shared.view().data() == theirs.array.first());
        CHECK(theirs.array.memory.use_count() == 2);
    }
    auto const moved = ferry::from_dlpack<managed_tensor>(std::move(theirs.array));
    CHECK(theirs.array.memory == nullptr);
    CHECK(moved.device() == World::gpu);
    theirs.gate.open();
}

}  // namespace exchange_suite
