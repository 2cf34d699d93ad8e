// Tensors that are copied when written: what shares memory, what keeps old values, and which streams wait.
#include <ferry/lease/shared_tensor.hpp>

#include <support/fails.hpp>
#include <support/lease.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

namespace {

using namespace support;
using ferry::already_ready;
using ferry::device_type;
using ferry::managed_tensor;
using ferry::shared_tensor;

constexpr std::size_t one = lease_world::bytes;

struct world : lease_world {
    ferry::destination<heap_space, sim_system> copies{space, sim};

    [[nodiscard]] shared_tensor make(float first) { return {floats(first), copies, stream}; }
};
[[nodiscard]] void const* data_of(managed_tensor const& m) { return m.view().data(); }

TEST_CASE("copies share memory until one of them is written, and a write alone is in place") {
    world w;
    shared_tensor a = w.make(1), b = a;
    CHECK(w.heap.used() == one);
    CHECK(data_of(a.read(w.stream)) == data_of(b.read(w.stream)));
    w.write(b.write(w.stream), 100, w.stream);
    CHECK(w.heap.used() == 2 * one);
    CHECK(w.value(a) == 1);
    CHECK(w.value(b) == 100);
    auto const* const before = data_of(b.read(w.stream));
    w.write(b.write(w.stream), 200, w.stream);
    CHECK(data_of(b.read(w.stream)) == before);
    CHECK(w.value(b) == 200);
    a = b;
    CHECK(w.value(a) == 200);
    CHECK(w.sim.races() == 0);
}

TEST_CASE("an export keeps the old values when the tensor is written, and its memory until it is released") {
    world w;
    shared_tensor a = w.make(1);
    managed_tensor old = a.read(w.stream);
    CHECK(old.is_read_only());
    CHECK(w.heap.used() == one);  // the export did not copy
    w.write(a.write(w.stream), 100, w.stream);
    CHECK(w.value(old) == 1);
    CHECK(w.value(a) == 100);
    old = {};
    auto const* const before = data_of(a.read(w.stream));
    w.write(a.write(w.stream), 200, w.stream);
    CHECK(data_of(a.read(w.stream)) == before);  // lazy again
}

TEST_CASE("a consumer without the flag READ_ONLY needs a tensor of write, beside which copies share no memory") {
    world w;
    shared_tensor a = w.make(1);
    auto reading = a.read(w.stream);
    fails(errc::read_only, [&] { static_cast<void>(reading.release_legacy()); });
    reading = {};
    auto* const raw = a.write(w.stream).release_legacy();
    CHECK(w.heap.used() == one);
    shared_tensor const b = a;
    CHECK(w.heap.used() == 2 * one);
    w.sim.finish(w.stream);
    write_values(w.sim, raw->dl_tensor.data, 256, 100, w.stream);
    CHECK(w.value(b) == 1);
    CHECK(w.value(a) == 100);
    raw->deleter(raw);
    shared_tensor const c = a;
    CHECK(w.heap.used() == 2 * one);  // lazy again
    CHECK(w.value(c) == 100);
}

TEST_CASE("a copy is queued behind the last write, on the stream of the writer, and keeps its source") {
    world w;
    std::optional<shared_tensor> a = w.make(1);
    auto const gate = w.sim.close(w.stream);
    w.write(a->write(w.stream), 50, w.stream);
    shared_tensor b = *a;
    {
        managed_tensor const m = b.write(w.other);  // does not block
        CHECK(w.sim.is_ordered(w.stream, w.other));
        a.reset();
        gate.open();
        CHECK(w.value(m) == 50);
    }
    CHECK(w.sim.races() == 0);
    CHECK(w.sim.reads_after_release() == 0);
}

TEST_CASE("a copy is queued behind the work of a consumer that still has a tensor of write") {
    world w;
    shared_tensor a = w.make(1);
    managed_tensor const writing = a.write(w.stream), reading = a.read(w.stream);
    w.sim.finish(w.stream);
    auto const gate = w.sim.close(w.stream);
    w.write(writing, 50, w.stream);
    managed_tensor const m = a.write(w.other);
    CHECK(m.view().data() != writing.view().data());
    gate.open();
    CHECK(w.value(m) == 50);
    CHECK(w.sim.races() == 0);
}

TEST_CASE("the source of a copy is freed behind the copy") {
    world w;
    std::optional<shared_tensor> a = w.make(1);
    shared_tensor b = *a;
    w.sim.finish(w.stream);
    auto const gate = w.sim.close(w.other);
    managed_tensor const m = b.write(w.other);
    a.reset();
    CHECK(w.heap.used() == 2 * one);
    gate.open();
    CHECK(w.value(m) == 1);
    CHECK(w.sim.reads_after_release() == 0);
}

TEST_CASE("a shared tensor of a manager is spilled, and written by itself") {
    world w;
    shared_tensor a{w.manager->adopt(w.floats(1), w.stream)}, b = a;
    CHECK(w.manager->free_up(1) == one);
    w.write(b.write(w.stream), 100, w.stream);
    CHECK(w.value(a) == 1);
    CHECK(w.manager->free_up(2 * one) == 2 * one);
    CHECK(w.value(b) == 100);
    CHECK(w.value(a) == 1);
}

TEST_CASE("threads write tensors that share memory") {
    world w;
    shared_tensor const first = w.make(1);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&, i, mine = first]() mutable {
            auto const on = w.sim.make_stream(device_type::cuda);
            for (int k = 0; k < 4; ++k) {
                auto const value = static_cast<float>(10 * i + k);
                shared_tensor const before = mine;
                w.write(mine.write(on), value, on);
                managed_tensor const m = mine.read(on);
                w.sim.finish(on);
                if (w.sim.read<float>(m.view().data()) != value) ++wrong;
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(w.value(first) == 1);
    CHECK(w.sim.reads_after_release() == 0);
}

TEST_CASE("errors leave the tensor as it was") {
    world w;
    shared_tensor a = w.make(1), b = a;
    w.sim.fail_at(verb::copy, 1);
    fails(errc::driver, [&] { static_cast<void>(b.write(w.stream)); });
    CHECK(data_of(a.read(w.stream)) == data_of(b.read(w.stream)));
    auto const wrong = w.sim.make_stream(device_type::ext_dev);
    fails(errc::stream, [&] { static_cast<void>(b.read(wrong)); });
    fails(errc::stream, [&] { static_cast<void>(b.write(wrong)); });
    float x = 0;
    std::int64_t const extent[] = {1};
    auto host = ferry::to_dlpack(ferry::tensor_view{&x, {extent}}, {.copy = ferry::copy_policy::always});
    fails(errc::device, [&] { static_cast<void>(shared_tensor{std::move(host), w.copies}); }, {"device"});
    CHECK(host);
    shared_tensor const moved = std::move(a);
    fails(errc::consumed, [&] { static_cast<void>(a.read(w.stream)); });
    fails(errc::consumed, [&] { static_cast<void>(a.write(w.stream)); });
    CHECK(w.value(moved) == 1);
}

TEST_CASE("a read-only tensor is copied when it is written") {
    world w;
    managed_tensor m = w.make(3).read(w.stream);
    shared_tensor a{std::move(m), w.copies, w.stream};
    w.write(a.write(w.stream), 7, w.stream);
    CHECK(w.value(a) == 7);
    CHECK(w.heap.used() >= one);
}

}  // namespace
