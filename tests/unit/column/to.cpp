// Columns between spaces: one copy for a tree, the waits, and what is left when something fails.
#include <ferry/column.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/random_columns.hpp>
#include <support/sim_column.hpp>
#include <support/sim_space.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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

std::vector<std::string> every_format() {
    std::vector<std::string> all(std::begin(column_maker::leaves), std::end(column_maker::leaves));
    all.insert(all.end(), std::begin(column_maker::nested), std::end(column_maker::nested));
    return all;
}

column frame(std::int64_t rows, unsigned seed = 3) {
    column_maker maker{seed};
    return maker.make("+s", rows, 3);
}

column numbers() {
    auto owner = std::make_shared<std::vector<std::int32_t>>(std::vector<std::int32_t>{1, 2, 3, 4});
    column_buffer const buffers[] = {{}, {owner->data(), 16}};
    return ferry::make_column({.format = "i", .length = 4, .buffers = buffers}, owner);
}
std::vector<std::string> const number_texts{"01000000", "02000000", "03000000", "04000000"};

}  // namespace

TEST_CASE("every column arrives on a device by one copy, and comes back by one") {
    unsigned seed = 300'000;
    for (auto const& format : every_format())
        for (int turn = 0; turn < 6; ++turn) {
            world w;
            column_maker maker{++seed};
            INFO(format, " seed ", seed);
            auto const whole = maker.make(format, maker.below(60), 3);
            auto const begin = maker.below(whole.length() + 1);
            auto const c = whole.slice(begin, maker.below(whole.length() - begin + 1));
            auto const there = c.to(gpu, w.sim, w.stream);
            CHECK(there.device() == gpu);
            CHECK(there.offset() == 0);
            CHECK(w.sim.calls(verb::copy) <= 1);
            CHECK(w.sim.calls(verb::wait) == 0);
            auto const back = there.to(ferry::cpu, w.sim, w.stream);
            CHECK(w.sim.calls(verb::copy) <= 2);
            CHECK(support::shown(back.view()) == support::shown(c.view()));
            ferry::validate(back.view());
            // A part of it, which is not the whole allocation any more.
            auto const from = maker.below(there.length() + 1), length = maker.below(there.length() - from + 1);
            auto const part = there.slice(from, length).to(ferry::cpu, w.sim, w.stream);
            CHECK(support::shown(part.view()) == support::shown(c.view().slice(from, length)));
            CHECK(part.offset() == 0);
            CHECK(w.sim.races() == 0);
        }
}

TEST_CASE("columns of others on a device come to the host compacted") {
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

TEST_CASE("a frame of a hundred columns costs one copy up, one wait for each depth down from others' buffers") {
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
    CHECK(w.sim.calls(verb::wait) - before == 1);  // the struct itself has no buffer
}

TEST_CASE("what is there already is the same column") {
    world w;
    auto const c = numbers();
    auto const same = c.slice(1, 2).to(ferry::cpu);
    CHECK(same.view().buffers()[1].data == c.view().buffers()[1].data);
    CHECK(same.offset() == 1);
    auto const there = c.to(gpu, w.sim, w.stream);
    auto const calls = w.sim.calls();
    auto const again = there.to(gpu, w.sim, w.stream);
    CHECK(again.view().buffers()[1].data == there.view().buffers()[1].data);
    CHECK(w.sim.calls() == calls);
}

TEST_CASE("on the host the data is there on return; on a device nothing blocks") {
    world w;
    auto const c = frame(20);
    auto gate = w.sim.close(w.stream);
    auto const there = c.to(gpu, w.sim, w.stream);  // behind a gate that is closed
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

TEST_CASE("pinned and managed memory are waited for before the host reads or writes them") {
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

TEST_CASE("a column that a queued copy still reads lives on in the new one") {
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

TEST_CASE("memory comes from a space of the caller's") {
    struct counting {
        int* live;
        [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment) const {
            return ++*live, ferry::host_space{}.allocate(bytes, alignment);
        }
        void deallocate(void* p, std::size_t bytes, std::size_t alignment) const noexcept {
            --*live, ferry::host_space{}.deallocate(p, bytes, alignment);
        }
        [[nodiscard]] static ferry::device device() noexcept { return ferry::cpu; }
    };
    static_assert(ferry::memory_space<counting>);
    world w;
    int live = 0;
    {
        auto const back = numbers().to(gpu, w.sim, w.stream).to(counting{&live}, w.sim, w.stream);
        CHECK(live == 1);
        CHECK(support::shown(back.view()) == number_texts);
    }
    CHECK(live == 0);
}

TEST_CASE("where no back end reaches, and what streams cannot be") {
    world w;
    fails(errc::no_backend, [&] { static_cast<void>(numbers().to(gpu)); }, {"ferry/cuda.hpp"});
    auto const there = numbers().to(gpu, w.sim);
    fails(errc::no_backend, [&] { static_cast<void>(there.to(ferry::cpu)); });
    fails(errc::stream,
          [&] { static_cast<void>(there.to(ferry::cpu, w.sim, ferry::stream_token::from_cuda_handle(0))); });
    auto const back = there.to(ferry::cpu, w.sim);
    CHECK(support::shown(back.view()) == number_texts);
}

TEST_CASE("an empty column needs no memory and keeps its device") {
    world w;
    auto const there = column{}.to(gpu, w.sim, w.stream);
    CHECK(there.device() == gpu);
    CHECK(w.sim.calls() == 0);
}

TEST_CASE("offsets that lie on a device end in an error, and everything is released") {
    world w;
    std::int32_t const offsets[] = {0, 9};
    column_buffer const buffers[] = {{}, {offsets, 8}, {"abc", 3}};
    support::sim_columns others{w.sim, gpu, w.stream};
    auto const text = ferry::make_column({.format = "u", .name = "s", .length = 1, .buffers = buffers}, nullptr);
    auto const there = others.put(text);
    auto const live = w.sim.live_bytes();
    fails(errc::bad_column, [&] { static_cast<void>(there.to(ferry::cpu, w.sim, w.stream)); },
          {"s: its offsets go from 0 to 9, and there are 3"});
    CHECK(w.sim.live_bytes() == live);
}

TEST_CASE("a fetch that fails waits for the copies before it, whose target it gives back") {
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

TEST_CASE("whatever call fails, everything is released") {
    auto const c = frame(30);
    for (auto const which : {verb::allocate, verb::copy, verb::wait})
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
