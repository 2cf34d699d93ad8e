// Copies of columns between spaces: one copy for a tree, the waits, and the state after failures.
#include <ferry/column.hpp>
#include <ferry/column/detail/used_bytes.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/no_owner.hpp>
#include <support/placed_space.hpp>
#include <support/random_columns.hpp>
#include <support/sim_column.hpp>
#include <support/sim_space.hpp>
#include <support/sim_world.hpp>
#include <support/split_columns.hpp>
#include <support/stream_ordered.hpp>

#define WORLDS support::sim_world
#include <support/column_suite.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using column_suite::every_format;
using column_suite::number_texts;
using column_suite::numbers;
using ferry::column;
using ferry::column_buffer;
using ferry::device;
using ferry::device_type;
using ferry::errc;
using support::column_maker;
using support::fails;
using support::verb;

namespace {

device const gpu{device_type::cuda, 0}, other_gpu{device_type::cuda, 1}, pinned{device_type::cuda_host, 0},
    managed{device_type::cuda_managed, 0};

struct world {
    support::sim_system sim{gpu, other_gpu, pinned, managed};
    ferry::stream_token stream = sim.make_stream(device_type::cuda);
};

column frame(std::int64_t rows, unsigned seed = 3) {
    column_maker maker{seed};
    return maker.make("+s", rows, 3);
}

}  // namespace

TEST_CASE("columns of other libraries on a device are copied") {
    unsigned seed = 400'000;
    for (auto const& format : every_format())
        for (int turn = 0; turn < 6; ++turn) {
            world w;
            support::sim_columns device_columns{w.sim, gpu, w.stream};
            column_maker maker{++seed};
            INFO(format, " seed ", seed);
            auto const c = maker.make(format, maker.below(60), 3);
            auto const there = device_columns.put(c);
            auto const back = there.to(ferry::cpu, w.sim, w.stream);
            CHECK(support::shown(back.view()) == support::shown(c.view()));
            auto const elsewhere = there.to(other_gpu, w.sim, w.stream);
            CHECK(elsewhere.device() == other_gpu);
            auto const again = elsewhere.to(ferry::cpu, w.sim, w.stream);
            CHECK(support::shown(again.view()) == support::shown(c.view()));
            CHECK(w.sim.races() == 0);
        }
}

TEST_CASE("a frame of a hundred columns is one copy to the device, and one wait from buffers of other libraries") {
    world w;
    column_maker maker{5};
    std::vector<column> kept;
    std::vector<ferry::column_parts> children;
    auto const x = numbers();
    for (int i = 0; i < 100; ++i) children.push_back({.format = "i", .length = 4, .buffers = x.view().buffers()});
    column_buffer const none[] = {{}};
    auto const c = ferry::make_column({.format = "+s", .length = 4, .buffers = none, .children = children}, x.owner());
    auto const there = c.to(gpu, w.sim, w.stream);
    CHECK(w.sim.calls() == 2);  // allocate, copy
    auto const child = there.child(7).to(ferry::cpu, w.sim, w.stream);
    CHECK(support::shown(child.view()) == number_texts);
    CHECK(w.sim.calls(verb::copy) == 2);
    support::sim_columns others{w.sim, gpu, w.stream};
    auto const foreign = others.put(c);
    auto const before = w.sim.calls(verb::wait);
    static_cast<void>(foreign.to(ferry::cpu, w.sim, w.stream));
    CHECK(w.sim.calls(verb::wait) - before == 1);
}

TEST_CASE("buffers that lie side by side are copied at once only if they are in one allocation") {
    std::byte const bytes[256]{};
    auto const runs_of = [&](std::int64_t first, std::size_t readable) {
        ferry::detail::copied_range ranges[] = {{bytes + 128, 128}, {bytes, first}};
        std::vector<ferry::detail::copied_range> runs;
        CHECK(ferry::detail::lay_out(ranges, runs, {bytes, readable}) == 256);
        return runs.size();
    };
    CHECK(runs_of(128, 0) == 2);
    CHECK(runs_of(128, 128) == 2);
    CHECK(runs_of(128, 256) == 1);
    CHECK(runs_of(100, 128) == 2);
    CHECK(runs_of(100, 256) == 1);
    CHECK(runs_of(129, 0) == 1);
}

TEST_CASE("a copy to the host is complete on return; a copy to a device does not block") {
    world w;
    auto const c = frame(20);
    auto gate = w.sim.close(w.stream);
    auto const there = c.to(gpu, w.sim, w.stream);  // after a closed gate
    column back, of_others;
    {
        std::thread opener{[&] {
            w.sim.until_host_waits();
            gate.open();
        }};
        back = there.to(ferry::cpu, w.sim, w.stream);
        CHECK(support::shown(back.view()) == support::shown(c.view()));
        opener.join();
    }
    auto second = w.sim.close(w.stream);
    support::sim_columns others{w.sim, gpu, w.stream};
    auto const foreign = others.put(c);
    {
        std::thread opener{[&] {
            w.sim.until_host_waits();
            second.open();
        }};
        of_others = foreign.to(ferry::cpu, w.sim, w.stream);
        CHECK(support::shown(of_others.view()) == support::shown(c.view()));
        opener.join();
    }
    CHECK(w.sim.races() == 0);
}

TEST_CASE("the host waits for pinned and managed memory before it reads or writes it") {
    for (device const place : {pinned, managed}) {
        world w;
        auto const c = numbers();
        auto const there = c.to(place, w.sim, w.stream);  // the host writes it
        CHECK(support::shown(there.view()) == number_texts);
        CHECK(w.sim.calls(verb::copy) == 0);
        CHECK(w.sim.calls(verb::wait) == 1);
        support::sim_columns others{w.sim, place, w.stream};
        auto gate = w.sim.close(w.stream);
        auto const foreign = others.put(c);  // not written yet
        std::thread opener{[&] {
            w.sim.until_host_waits();
            gate.open();
        }};
        auto const back = foreign.to(ferry::cpu, w.sim, w.stream);
        opener.join();
        CHECK(support::shown(back.view()) == number_texts);
        auto const up = foreign.to(gpu, w.sim, w.stream);
        auto const down = up.to(place, w.sim, w.stream);
        CHECK(down.device() == place);
        CHECK(support::shown(down.view()) == number_texts);
        auto const host = down.to(ferry::cpu, w.sim, w.stream);
        CHECK(support::shown(host.view()) == number_texts);
        static_cast<void>(down.to(gpu, w.sim, w.stream));
    }
}

TEST_CASE("a column that a queued copy still reads is kept by the new one") {
    world w;
    auto there = numbers().to(gpu, w.sim, w.stream);
    auto gate = w.sim.close(w.stream);
    auto const elsewhere = there.to(other_gpu, w.sim, w.stream);
    there = column{};
    gate.open();
    auto const back = elsewhere.to(ferry::cpu, w.sim, w.stream);
    CHECK(support::shown(back.view()) == number_texts);
    CHECK(w.sim.reads_after_release() == 0);
    CHECK(w.sim.calls(verb::copy) == 3);
}

TEST_CASE("a queued column that is dropped is copied before its memory and its source are freed") {
    for (bool const from_host : {false, true}) {
        CAPTURE(from_host);
        world w;
        auto there = from_host ? frame(20) : numbers().to(gpu, w.sim, w.stream);
        w.sim.finish(w.stream);
        auto gate = w.sim.close(w.stream);
        auto elsewhere = there.to(other_gpu, w.sim, w.stream);
        there = column{};
        std::atomic<bool> is_gone = false;
        std::thread drops{[&] {
            elsewhere = column{};
            is_gone = true;
        }};
        w.sim.until_host_waits();
        CHECK(!is_gone);
        CHECK(w.sim.live_bytes() != 0);
        gate.open();
        drops.join();
        CHECK(w.sim.live_bytes() == 0);
        CHECK(w.sim.reads_after_release() == 0);
    }
}

TEST_CASE("the size of text that only its offsets tell is read, and an invalid one is an error") {
    world w;
    support::sim_columns others{w.sim, gpu, w.stream};
    std::int32_t const offsets[] = {0, 3, -9};
    column_buffer const buffers[] = {{}, {offsets, 12}};
    auto const there = others.put(ferry::make_column({.format = "i", .length = 3, .buffers = buffers}, nullptr));
    auto const text = others.put(numbers());
    auto const make = [&](std::int64_t length) {
        column_buffer const all[] = {{}, there.view().buffers()[1], {text.view().buffers()[1].data, -1}};
        return ferry::make_column({.format = "u", .name = "s", .length = length, .buffers = all}, nullptr, gpu);
    };
    auto const back = make(1).to(ferry::cpu, w.sim, w.stream);
    CHECK(back.view().buffers()[2].bytes == 3);
    CHECK(support::shown(back.view()) == std::vector<std::string>{"010000"});
    auto const live = w.sim.live_bytes();
    fails(errc::bad_column, [&] { static_cast<void>(make(2).to(ferry::cpu, w.sim, w.stream)); },
          {"s: its data ends at byte -9, expected at least 0: "});
    CHECK(w.sim.live_bytes() == live);
}

TEST_CASE("of a slice, the bytes that its items use are copied, each once") {
    world w;
    auto const owner = std::make_shared<std::vector<std::int32_t>>(5000, 7);
    (*owner)[4001] = 8;
    column_buffer const none[] = {{}}, items[] = {{}, {owner->data(), 20'000}};
    ferry::column_parts const children[] = {
        {.format = "i", .name = "a", .length = 5000, .buffers = items},
        {.format = "i", .name = "b", .length = 4999, .offset = 1, .buffers = items}};
    auto const table =
        ferry::make_column({.format = "+s", .length = 4999, .buffers = none, .children = children}, owner);
    for (auto const& c : {table, table.to(other_gpu, w.sim, w.stream)}) {
        auto const there = c.slice(4000, 3).to(gpu, w.sim, w.stream);
        CHECK(there.offset() == 0);
        CHECK(there.view().node().arena.size() == 64);
        auto const back = there.to(ferry::cpu, w.sim, w.stream);
        CHECK(support::shown(back.view()) == support::shown(table.view().slice(4000, 3)));
    }
    CHECK(w.sim.races() == 0);
}

TEST_CASE("a failed copy waits for the previous ones, whose target it frees") {
    world w;
    support::sim_columns others{w.sim, gpu, w.stream};
    std::int32_t const items[] = {1, 2};
    column_buffer const buffers[] = {{"\1", 1}, {items, sizeof items}};
    auto const there = others.put(ferry::make_column({.format = "i", .length = 2, .buffers = buffers}, nullptr));
    w.sim.finish(w.stream);
    auto gate = w.sim.close(w.stream);
    std::thread opens{[&] {
        w.sim.until_host_waits();
        gate.open();
    }};
    w.sim.fail_at(verb::copy, 2);
    fails(errc::driver, [&] { static_cast<void>(there.to(ferry::cpu, w.sim, w.stream)); }, {"injected"});
    CHECK(w.sim.calls(verb::wait) == 1);
    opens.join();
}

TEST_CASE("everything is released after the failure of any call") {
    auto const c = frame(30);
    for (auto const which : {verb::allocate, verb::copy, verb::wait, verb::mark})
        for (int n = 1; n < 8; ++n) {
            world w;
            support::sim_columns others{w.sim, gpu, w.stream};
            auto const foreign = others.put(c);
            auto const live = w.sim.live_bytes();
            w.sim.fail_at(which, n);
            try {
                auto const there = c.to(gpu, w.sim, w.stream);
                auto const back = there.to(ferry::cpu, w.sim, w.stream);
                auto const part = there.slice(3, 9).to(ferry::cpu, w.sim, w.stream);
                auto const elsewhere = foreign.to(other_gpu, w.sim, w.stream);
            } catch (ferry::error const& e) {
                CHECK(e.code() == errc::driver);
            }
            w.sim.finish(w.stream);
            CHECK(w.sim.live_bytes() == live);
            CHECK(w.sim.reads_after_release() == 0);
        }
    world w;
    support::sim_columns others{w.sim, gpu, w.stream};
    auto const foreign = others.put(c);
    CHECK(support::for_each_failing_allocation([&](int) {
              auto const there = c.to(gpu, w.sim);
              static_cast<void>(there.to(ferry::cpu, w.sim));
          }) > 5);
    w.sim.finish(w.stream);
    CHECK(support::for_each_failing_allocation([&](int) { static_cast<void>(foreign.to(ferry::cpu, w.sim)); }) > 5);
}

TEST_CASE(
    "R50: memory that a failed move allocated on a stream is freed in the order of that stream, after any failure") {
    auto const on = ferry::stream_token::from_cuda_handle(16);
    std::int64_t const shape[] = {4}, apart[] = {2};
    float data[8] = {};
    std::uint8_t valid[4] = {1, 0, 1, 1};
    auto const lend = [&](auto* p, ferry::strides_view strides) {
        return ferry::make_managed(support::no_owner{}, ferry::tensor_view{p, {shape}, strides, gpu});
    };
    auto const c = frame(30);
    auto const check = [&](auto move) {
        {
            support::stream_ordered b;
            b.fails = true;
            fails(errc::driver, [&] { move(b); });
            CHECK(b.given_back == b.given);
            CHECK(b.too_early == 0);
        }
        int taken = 0;
        for (int n = 1; n < 200; ++n) {
            support::stream_ordered b;
            bool failed = false;
            {
                support::allocation_window const window{n};
                try {
                    move(b);
                } catch (std::bad_alloc const&) {
                    failed = true;
                }
            }
            if (!failed) break;
            taken += b.given;
            CHECK(b.given_back == b.given);
            CHECK(b.too_early == 0);
        }
        CHECK(taken >= 1);
    };
    check([&](auto& b) { static_cast<void>(c.to(gpu, b, on)); });
    support::stream_ordered before;
    auto const in_one_piece = c.to(gpu, before, on);
    check([&](auto& b) { static_cast<void>(in_one_piece.to(other_gpu, b, on)); });
    check([&](auto& b) { static_cast<void>(ferry::from_tensors(lend(data, {apart}), {}, b, on)); });
    check([&](auto& b) { static_cast<void>(ferry::from_tensors(lend(data, {}), lend(valid, {}), b, on)); });
}

namespace {

/// Whether all bytes that the items of a column use lie in a space.
bool lies_in(support::arena const& space, ferry::column_view c) {
    auto const unused = ferry::detail::unused_items(c);
    for (std::size_t i = 0; i < c.buffers().size(); ++i) {
        auto const used = ferry::detail::used_bytes(c, i, unused);
        if (used.bytes != 0 && !space.has(used.begin)) return false;
    }
    for (int i = 0; i < c.child_count(); ++i)
        if (!lies_in(space, ferry::detail::used_child(c, i))) return false;
    return !c.has_dictionary() || lies_in(space, c.dictionary());
}

}  // namespace

TEST_CASE("D9: a column is moved into a space: buffers that the space contains are shared, others are copied") {
    unsigned seed = 500'000;
    for (device const place : {ferry::cpu, pinned, gpu})
        for (auto const& format : every_format())
            for (int turn = 0; turn < 4; ++turn) {
                world w;
                support::arena target{w.sim, place}, other{w.sim, place};
                {
                    column_maker maker{++seed};
                    INFO(format, " seed ", seed);
                    auto const host = maker.make(format, maker.below(40), 3);
                    // turn 0: all in the other space; 3: all in the target
                    support::split_columns split{
                        place, [&](void const* bytes, std::size_t size, std::shared_ptr<void>& owner) {
                            support::plain_space const from{turn == 3 || (turn != 0 && maker.below(2) != 0) ? &target
                                                                                                            : &other};
                            owner = {from.allocate(size, 64), [from](void* p) { from.deallocate(p, 0, 0); }};
                            std::memcpy(w.sim.block_at(owner.get())->device_side(), bytes, size);
                            return owner.get();
                        }};
                    auto whole = split.put(host);
                    auto const begin = maker.below(whole.length() + 1);
                    auto part = whole.slice(begin, maker.below(whole.length() - begin + 1));
                    auto const expected = support::shown(host.slice(begin, part.length()));
                    auto const before = target.allocated;
                    auto moved = part.to(support::knowing_space{&target}, w.sim, w.stream);
                    CHECK(target.allocated <= before + 1);
                    CHECK(lies_in(target, moved.view()));
                    CHECK(moved.device() == place);
                    if (turn == 3) CHECK(target.allocated == before);
                    auto const again = moved.to(support::knowing_space{&target}, w.sim, w.stream);
                    CHECK(again.view().node().buffers.data() == moved.view().node().buffers.data());  // the same
                    auto const forced = part.to(support::plain_space{&target}, w.sim, w.stream);
                    CHECK(lies_in(target, forced.view()));
                    w.sim.finish(w.stream);
                    whole = part = column{};
                    CHECK(support::shown(moved.to(ferry::cpu, w.sim, w.stream)) == expected);
                    CHECK(support::shown(forced.to(ferry::cpu, w.sim, w.stream)) == expected);
                }
                CHECK(target.allocated == target.freed);
                CHECK(other.allocated == other.freed);
                CHECK(w.sim.live_bytes() == 0);
                CHECK((w.sim.races() == 0 && w.sim.reads_after_release() == 0));
            }
}

TEST_CASE("D9: after a failed move into a space, nothing is lost, and the column is unchanged") {
    world w;
    support::arena target{w.sim, ferry::cpu};
    auto const c = frame(10);
    auto const before = support::shown(c);
    support::knowing_space const space{&target};
    CHECK(support::for_each_failing_allocation([&](int) { static_cast<void>(c.to(space, w.sim)); }) > 5);
    target.fail_at = target.allocated + 1;
    auto const got = c.try_to(space, w.sim);
    CHECK((!got && got.error().code() == errc::out_of_memory));
    target.fail_at = 0;
    auto const there = c.to(gpu, w.sim, w.stream);
    w.sim.fail_at(verb::copy, 1);
    fails(errc::driver, [&] { static_cast<void>(there.to(space, w.sim, w.stream)); }, {"injected"});
    CHECK(target.allocated == target.freed);
    CHECK(support::shown(c) == before);
}
