// Tensors that leave a simulated device and return: values, order, limits, waits, and failures.
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/lease/retrying_space.hpp>
#include <ferry/lease/shared_tensor.hpp>
#include <ferry/lease/spill_manager.hpp>

#include <support/fails.hpp>
#include <support/lease.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace support;
using ferry::already_ready;
using ferry::device_type;
using ferry::managed_tensor;
using ferry::spill_manager;
using ferry::spillable;

constexpr std::size_t one = lease_world::bytes;

struct world : lease_world {
    using lease_world::lease_world;
    [[nodiscard]] spillable adopt(float first) { return manager->adopt(floats(first), stream); }
};

TEST_CASE("a spilled tensor returns to the device with its values, strides and type") {
    world w;
    spillable const t = w.adopt(7);
    CHECK(w.heap.used() == one);
    CHECK(w.manager->free_up(1) == one);
    CHECK(w.heap.used() == 0);
    CHECK(w.value(t, 0) == 7);
    CHECK(w.value(t, 255) == 262);
    CHECK(w.heap.used() == one);
    auto const s = w.manager->statistics();
    CHECK(s.spills == 1);
    CHECK(s.spilled_bytes == one);
    CHECK(s.returns == 1);
    CHECK(s.returned_bytes == one);
    CHECK(s.freed_bytes == one);
    CHECK(s.resident_bytes == one);
    CHECK(s.leased_bytes == 0);
    CHECK(w.sim.races() == 0);
}

TEST_CASE("a tensor with strides keeps them, and the bytes between its elements") {
    world w;
    std::int64_t const extents[] = {4, 8}, strides[] = {-16, 2};
    ferry::buffer<heap_space> memory{one, w.space};
    write_values(w.sim, memory.data(), 256, 0, w.stream);
    ferry::tensor_view const view{static_cast<float*>(memory.data()) + 48, {extents}, {strides}, gpu};
    spillable const t = w.manager->adopt(ferry::make_managed(std::move(memory), view), w.stream);
    CHECK(w.manager->free_up(1) == 63 * sizeof(float));
    managed_tensor const m = t.read(w.stream);
    CHECK(m.view().strides()[0] == -16);
    CHECK(m.view().strides()[1] == 2);
    w.sim.finish(w.stream);
    auto const at = [&](std::int64_t i, std::int64_t j) {
        return w.sim.read<float>(static_cast<float const*>(m.view().data()) - 16 * i + 2 * j);
    };
    CHECK(at(0, 0) == 48);
    CHECK(at(3, 7) == 14);
}

TEST_CASE("a lease keeps the memory until the tensor, or what it is exported as, is destroyed") {
    world w;
    spillable const t = w.adopt(1);
    managed_tensor m = t.read(w.stream);
    auto const* const data = m.view().data();
    CHECK(w.manager->free_up(1) == 0);
    auto* const raw = m.release();  // to another library
    CHECK(w.manager->free_up(1) == 0);
    CHECK(w.manager->statistics().leased_bytes == one);
    CHECK(raw->dl_tensor.data == data);
    raw->deleter(raw);
    CHECK(w.manager->free_up(1) == one);
}

TEST_CASE("the tensors that were used least recently leave first") {
    world w;
    spillable const a = w.adopt(1), b = w.adopt(2), c = w.adopt(3);
    static_cast<void>(w.value(a));
    CHECK(w.manager->free_up(one + 1) == 2 * one);  // b and c
    auto const before = w.manager->statistics().returns;
    static_cast<void>(w.value(a));
    CHECK(w.manager->statistics().returns == before);
    CHECK(w.value(b) == 2);
    CHECK(w.manager->statistics().returns == before + 1);
}

TEST_CASE("handles of one tensor share its memory, which the last of them frees") {
    world w;
    spillable a = w.adopt(1);
    {
        spillable const b = a;
        a = {};
        CHECK(w.manager->free_up(10 * one) == one);
        CHECK(w.value(b) == 1);
        w.sim.finish(w.stream);
    }
    CHECK(w.heap.used() == 0);
    CHECK(w.manager->statistics().resident_bytes == 0);
}

TEST_CASE("a limit holds for adopted tensors, for those that return, and for reservations") {
    world w{16 * one, {.limit = 2 * one}};
    std::vector<spillable> all;
    for (int i = 0; i < 6; ++i) {
        auto room = w.manager->reserve(one);
        auto made = w.floats(static_cast<float>(i));
        all.push_back(w.manager->adopt(std::move(made), w.stream, std::move(room)));
    }
    CHECK(w.heap.most_used() == 2 * one);
    for (int round = 0; round < 2; ++round)
        for (int i = 0; i < 6; ++i) CHECK(w.value(all[static_cast<std::size_t>(i)]) == static_cast<float>(i));
    CHECK(w.heap.most_used() == 2 * one);
    {
        auto const room = w.manager->reserve(2 * one);
        CHECK(w.heap.used() == 0);
        fails(errc::busy, [&] { static_cast<void>(all[0].read(w.stream)); }, {"limit", "end leases"});
    }
    CHECK(w.value(all[0]) == 0);
    CHECK(w.sim.races() == 0);
}

TEST_CASE("a spill waits for the work that was queued when the lease ended") {
    world w;
    spillable const t = w.adopt(1);
    auto const gate = w.sim.close(w.stream);
    {
        managed_tensor const m = t.write(w.stream);
        w.write(m, 100, w.stream);
    }
    opener const opens{w.sim, gate};
    CHECK(w.manager->free_up(1) == one);
    CHECK(w.value(t) == 100);
    CHECK(w.sim.races() == 0);
}

TEST_CASE("a spill waits for the streams that used_on adds to a lease") {
    world w;
    spillable const t = w.adopt(1);
    w.sim.finish(w.stream);
    auto const gate = w.sim.close(w.other);
    {
        managed_tensor const m = t.write(w.stream);
        ferry::used_on(m, w.other);
        w.write(m, 100, w.other);
    }
    opener const opens{w.sim, gate};
    CHECK(w.manager->free_up(1) == one);
    CHECK(w.value(t) == 100);
    CHECK(w.sim.races() == 0);
}

TEST_CASE("a spill waits for the stream of the request of an import, which begins a lease") {
    world w;
    spillable const t = w.adopt(1);
    ferry::shared_tensor const shared{t};
    for (auto const on : {w.other, ferry::stream_token{}}) {
        auto const used = on.is_none() ? ferry::stream_token::cuda_legacy_default(0) : on;
        auto gate = w.sim.close(w.stream);
        w.write(t.write(w.stream), 100, w.stream);
        managed_tensor m = ferry::from_dlpack<managed_tensor>(t, {.stream = on}, w.sim);
        CHECK(m.is_read_only());
        CHECK(w.sim.is_ordered(w.stream, used));
        gate.open();
        w.sim.finish(used);
        auto const closed = w.sim.close(used);
        w.write(m, 200, used);
        m = {};
        opener const opens{w.sim, closed};
        CHECK(w.manager->free_up(1) == one);
        CHECK(closed.is_open());
        CHECK(w.value(t) == 200);
    }
    CHECK(w.value(ferry::from_dlpack<managed_tensor>(shared, {.stream = w.stream}, w.sim)) == 200);
    auto const host = ferry::from_dlpack<managed_tensor>(t, {.device = ferry::cpu}, w.sim);
    CHECK(static_cast<float const*>(host.view().data())[1] == 201);
    CHECK(w.manager->free_up(1) == one);
    auto const wrong = w.sim.make_stream(device_type::ext_dev);
    fails(errc::consumed, [&] { static_cast<void>(ferry::from_dlpack<managed_tensor>(spillable{}, {}, w.sim)); });
    fails(errc::stream,
          [&] { static_cast<void>(ferry::from_dlpack<managed_tensor>(t, {.device = gpu, .stream = wrong}, w.sim)); });
    CHECK(w.sim.races() == 0);
}

TEST_CASE("a dropped tensor is freed behind its work, without blocking, and makes room before others are spilled") {
    world w;
    spillable const kept = w.adopt(5);
    auto const gate = w.sim.close(w.stream);
    {
        spillable const t = w.adopt(1);
        managed_tensor const m = t.write(w.stream);
        w.write(m, 100, w.stream);
    }
    CHECK(w.heap.used() == 2 * one);  // the gate is closed: destroying the tensor did not wait
    {
        opener const opens{w.sim, gate};
        CHECK(w.manager->free_up(1) == one);
    }
    CHECK(w.manager->statistics().spills == 0);
    CHECK(w.heap.used() == one);
    {
        spillable const t = w.adopt(2);
    }
    w.sim.finish(w.stream);
    spillable const last = w.adopt(3);  // finds that the work has completed
    CHECK(w.heap.used() == 2 * one);
}

TEST_CASE("a read on another stream waits for the last write, and a write for all reads") {
    world w;
    spillable const t = w.adopt(1);
    auto gate = w.sim.close(w.stream);
    {
        managed_tensor const m = t.write(w.stream);
        w.write(m, 100, w.stream);
    }
    int const waits = w.sim.calls(verb::wait);
    managed_tensor read = t.read(w.other);
    CHECK(w.sim.is_ordered(w.stream, w.other));
    CHECK(w.sim.calls(verb::wait) == waits);  // the host does not block
    gate.open();
    w.sim.finish(w.other);
    CHECK(w.sim.read<float>(read.view().data()) == 100);
    gate = w.sim.close(w.other);
    read = {};
    managed_tensor const write = t.write(w.stream);
    w.sim.queue(w.other, [] {});
    CHECK_FALSE(w.sim.is_ordered(w.other, w.stream));  // only the work up to the end of the lease
    gate.open();
}

TEST_CASE("a lease on another stream waits for the work that a live lease for writing has queued") {
    world w;
    spillable const t = w.adopt(1);
    w.sim.finish(w.stream);
    for (bool const writes : {false, true}) {
        managed_tensor const writing = t.write(w.stream);  // of a consumer that keeps it
        auto const gate = w.sim.close(w.stream);
        w.write(writing, 100, w.stream);
        int const waits = w.sim.calls(verb::wait), marks = w.sim.calls(verb::mark);
        managed_tensor const same = t.read(w.stream);
        CHECK(w.sim.calls(verb::mark) == marks);
        managed_tensor const later = writes ? t.write(w.other) : t.read(w.other);
        CHECK(w.sim.is_ordered(w.stream, w.other));
        CHECK(w.sim.calls(verb::wait) == waits);  // the host does not block
        w.sim.fail_at(verb::mark, 1);
        fails(errc::driver, [&] { static_cast<void>(t.read(writes ? w.stream : w.other)); });
        gate.open();
        CHECK(w.value(later) == 100);
    }
    CHECK(w.manager->free_up(1) == one);
    CHECK(w.value(t) == 100);
    CHECK(w.sim.races() == 0);
}

TEST_CASE("copies on the stream of the space are complete before the memory is used or freed") {
    sim_system sim{gpu, pinned};
    auto const stream = sim.make_stream(device_type::cuda), other = sim.make_stream(device_type::cuda);
    sim_heap heap{sim, gpu, 4 * one};
    spill_manager manager{sim, heap_space{&heap}, {.stream = stream}};
    spillable const t = manager.adopt(make_floats(sim, heap_space{&heap}, 256, 5, other), other);
    sim.finish(other);
    {
        auto const gate = sim.close(stream);
        opener const opens{sim, gate};
        CHECK(manager.free_up(1) == one);
    }
    auto const gate = sim.close(stream);
    opener const opens{sim, gate};
    managed_tensor const m = t.read(other);
    CHECK(sim.read<float>(m.view().data()) == 5);
    CHECK(sim.reads_after_release() == 0);
}

TEST_CASE("a lease without a stream makes the host wait for the last write") {
    world w;
    spillable const t = w.adopt(1);
    auto const gate = w.sim.close(w.stream);
    {
        managed_tensor const m = t.write(w.stream);
        w.write(m, 100, w.stream);
    }
    opener const opens{w.sim, gate};
    managed_tensor const m = t.read({});
    CHECK(w.sim.read<float>(m.view().data()) == 100);
}

TEST_CASE("memory whose work cannot be marked is quarantined until the manager is destroyed") {
    world w;
    {
        spillable const t = w.adopt(1);
        managed_tensor const m = t.read(w.stream);
        w.sim.fail_at(verb::mark, 1);
    }
    CHECK(w.manager->statistics().quarantined == 1);
    CHECK(w.manager->free_up(1) == 0);
    CHECK(w.heap.used() == one);
    w.manager.reset();
    CHECK(w.heap.used() == 0);
}

TEST_CASE("a tensor whose spill fails stays on the device, and is valid") {
    world w;
    spillable const t = w.adopt(1);
    for (auto const which : {verb::allocate, verb::copy}) {
        w.sim.fail_at(which, 1);
        CHECK(w.manager->free_up(1) == 0);
        CHECK(w.value(t) == 1);
    }
    CHECK(w.manager->statistics().failed_spills == 2);
    CHECK(w.manager->free_up(1) == one);
}

TEST_CASE("a tensor that cannot return stays on the host, and returns later") {
    world w;
    spillable const t = w.adopt(9);
    CHECK(w.manager->free_up(1) == one);
    w.sim.fail_at(verb::copy, 1);
    fails(errc::driver, [&] { static_cast<void>(t.read(w.stream)); });
    CHECK(w.heap.used() == 0);
    CHECK(w.value(t) == 9);
}

TEST_CASE("pinned memory is used up to its bound, then pageable memory") {
    world w{16 * one, {.most_pinned = one}};
    spillable const a = w.adopt(1), b = w.adopt(2);
    CHECK(w.manager->free_up(2 * one) == 2 * one);
    CHECK(w.sim.live_bytes() == 2 * static_cast<std::int64_t>(one));
    CHECK(w.value(a) == 1);
    CHECK(w.value(b) == 2);
    CHECK(w.manager->free_up(one) == one);  // the pinned memory is free again
    CHECK(w.value(a) == 1);
}

TEST_CASE("retrying_space makes room for an allocation, and fails when leases use all memory") {
    world w{2 * one};
    ferry::retrying_space<heap_space> space{w.space, *w.manager};
    spillable const a = w.adopt(1), b = w.adopt(2);
    {
        ferry::buffer<ferry::retrying_space<heap_space>> const memory{one, space};
        CHECK(w.manager->statistics().spills == 1);
        managed_tensor const m = b.read(w.stream);
        CHECK_THROWS_AS(static_cast<void>(space.allocate(one)), std::bad_alloc);
        fails(errc::out_of_memory, [&] { static_cast<void>(a.read(w.stream)); });
    }
    CHECK(w.value(a) == 1);
    CHECK(w.value(b) == 2);
    CHECK(spill_manager::on_failure(one, &*w.manager));
    CHECK(spill_manager::on_failure(one, &*w.manager));
    CHECK_FALSE(spill_manager::on_failure(one, &*w.manager));
}

TEST_CASE("retrying_space contains what the other space contains") {
    struct knowing_space : heap_space {
        [[nodiscard]] bool contains(ferry::tensor_view const& v) const { return v.device() == heap->device(); }
    };
    world w;
    ferry::retrying_space const space{knowing_space{{w.space}}, *w.manager};
    managed_tensor const shared =
        ferry::to_dlpack(w.floats(1), {.copy = ferry::copy_policy::never, .placement = ferry::placement::exact},
                         ferry::destination{space, w.sim}, w.stream);
    CHECK_FALSE(shared.is_copied());
    static_assert(!ferry::containing_space<ferry::retrying_space<heap_space>>);
}

TEST_CASE("threads that are out of memory together wait for one another") {
    for (int round = 0; round < 5; ++round) {
        world w{8 * one};
        std::vector<spillable> all;
        for (int i = 0; i < 8; ++i) all.push_back(w.adopt(static_cast<float>(i)));
        std::atomic<int> failures = 0;
        {
            std::vector<std::thread> threads;
            for (int i = 0; i < 8; ++i)
                threads.emplace_back([&] {
                    try {
                        ferry::retrying_space<heap_space> space{w.space, *w.manager};
                        ferry::buffer<ferry::retrying_space<heap_space>> const memory{one, space};
                    } catch (std::bad_alloc const&) {
                        ++failures;
                    }
                });
            for (auto& thread : threads) thread.join();
        }
        CHECK(failures == 0);
        for (int i = 0; i < 8; ++i) CHECK(w.value(all[static_cast<std::size_t>(i)]) == static_cast<float>(i));
    }
}

TEST_CASE("a thread without a tensor to spill waits for the spill of another thread") {
    world w{2 * one};
    spillable const t = w.manager->adopt(make_floats(w.sim, w.space, 512, 1, w.stream), w.stream);
    auto const gate = w.sim.close(w.stream);
    {
        managed_tensor const m = t.read(w.stream);
    }
    std::atomic<int> failures = 0;
    auto const allocate = [&] {
        try {
            ferry::retrying_space<heap_space> space{w.space, *w.manager};
            ferry::buffer<ferry::retrying_space<heap_space>> const memory{one, space};
        } catch (std::bad_alloc const&) {
            ++failures;
        }
    };
    std::thread first{allocate};
    w.sim.until_host_waits();
    std::thread second{allocate};
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    gate.open();
    first.join();
    second.join();
    CHECK(failures == 0);
}

TEST_CASE("a table names where the live leases began") {
    world w;
    spillable const t = w.adopt(1);
    CHECK(w.manager->live_leases().empty());
    managed_tensor const m = t.read(w.stream);
    auto const table = w.manager->live_leases();
    CHECK(table.find("spill_manager.cpp") != std::string::npos);
    CHECK(table.find("1024 bytes") == 0);
}

TEST_CASE("an empty tensor occupies no memory") {
    world w;
    spillable const t = w.manager->adopt(make_floats(w.sim, w.space, 0, 0, w.stream), already_ready);
    CHECK(w.manager->free_up(1) == 0);
    managed_tensor const m = t.read(w.stream);
    CHECK(m.view().is_empty());
}

TEST_CASE("invalid arguments are errors, and lose nothing") {
    world w{4 * one, {.limit = 2 * one}};
    auto const wrong = w.sim.make_stream(device_type::ext_dev);
    fails(errc::argument, [&] { spill_manager{w.sim, w.space, {.limit = 0}}; }, {"limit", "omit"});
    fails(errc::no_backend, [&] { spill_manager{ferry::host_only, w.space}; });
    fails(errc::stream, [&] { spill_manager{w.sim, w.space, {.stream = wrong}}; });
    fails(errc::out_of_memory, [&] { static_cast<void>(w.manager->reserve(3 * one)); }, {"exceeds the limit"});

    auto t = w.floats(1);
    fails(errc::stream, [&] { static_cast<void>(w.manager->adopt(std::move(t), wrong)); });
    CHECK(t);
    w.sim.fail_at(verb::mark, 1);
    fails(errc::driver, [&] { static_cast<void>(w.manager->adopt(std::move(t), w.stream)); });
    CHECK(t);
    float x = 0;
    std::int64_t const extent[] = {1};
    auto host = ferry::to_dlpack(ferry::tensor_view{&x, {extent}}, {.copy = ferry::copy_policy::always});
    fails(errc::device, [&] { static_cast<void>(w.manager->adopt(std::move(host), already_ready)); });
    CHECK(host);
    fails(errc::argument, [&] { ferry::used_on(host, w.stream); }, {"no lease"});
    fails(errc::consumed, [&] { static_cast<void>(w.manager->adopt(managed_tensor{}, already_ready)); });
    fails(errc::consumed, [&] { static_cast<void>(spillable{}.read(w.stream)); });

    world other{4 * one, {.limit = 2 * one}};
    auto room = other.manager->reserve(one), more = other.manager->reserve(one);
    fails(errc::argument, [&] { static_cast<void>(w.manager->adopt(std::move(t), w.stream, std::move(room))); },
          {"another manager"});
    fails(errc::argument, [&] { static_cast<void>(w.manager->adopt(ferry::column{}, w.stream, std::move(more))); });
    CHECK(t);
    CHECK(other.manager->reserve(2 * one).size() == 2 * one);
    spillable const s = w.manager->adopt(std::move(t), w.stream);
    fails(errc::stream, [&] { static_cast<void>(s.read(wrong)); });
    managed_tensor m = s.read(w.stream);
    fails(errc::stream, [&] { ferry::used_on(m, wrong); });
    spillable const frozen = w.manager->adopt(std::move(m), w.stream);  // a lease is read-only
    fails(errc::read_only, [&] { static_cast<void>(frozen.write(w.stream)); });
    CHECK(w.value(s) == 1);
}

TEST_CASE("a lease that outlives its manager keeps its memory; a handle can only be destroyed") {
    world w;
    spillable t = w.adopt(3);
    spillable const away = w.adopt(4);
    managed_tensor m = t.read(w.stream);
    CHECK(w.manager->free_up(1) == one);
    w.manager.reset();
    w.sim.finish(w.stream);
    CHECK(w.sim.read<float>(m.view().data()) == 3);
    fails(errc::consumed, [&] { static_cast<void>(t.read(w.stream)); }, {"spill_manager", "destroyed"});
    fails(errc::consumed, [&] { static_cast<void>(away.read(w.stream)); });
    t = {};
    CHECK(w.heap.used() == one);
    m = {};
    CHECK(w.heap.used() == 0);
}

}  // namespace
