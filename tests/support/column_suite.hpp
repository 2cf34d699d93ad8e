// Tests of columns between the host and every device, simulated or real. WORLDS lists the environments; see
// exchange_suite.hpp.
#pragma once

#include <ferry/column.hpp>
#include <support/fails.hpp>
#include <support/random_columns.hpp>
#include <support/verb.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace column_suite {

using ferry::column;
using ferry::errc;
using support::column_maker;
using support::fails;
using support::verb;

inline std::vector<std::string> every_format() {
    std::vector<std::string> all(std::begin(column_maker::leaves), std::end(column_maker::leaves));
    all.insert(all.end(), std::begin(column_maker::nested), std::end(column_maker::nested));
    return all;
}

inline column numbers() { return support::int32s({1, 2, 3, 4}); }
inline std::vector<std::string> const number_texts{"01000000", "02000000", "03000000", "04000000"};

TEST_CASE_TEMPLATE("a column is copied to a device by one copy, and back by one copy", World, WORLDS) {
    unsigned seed = 300'000;
    for (auto const& format : every_format()) {
        World w{World::gpu};
        for (int turn = 0; turn < 6; ++turn) {
            column_maker maker{++seed};
            INFO(format, " seed ", seed);
            int copies = 0, waits = 0;
            w.probe([&](auto& sim) { copies = sim.calls(verb::copy), waits = sim.calls(verb::wait); });
            auto const whole = maker.make(format, maker.below(60), 3);
            auto const begin = maker.below(whole.length() + 1);
            auto const c = whole.slice(begin, maker.below(whole.length() - begin + 1));
            auto const there = c.to(World::gpu, w.back_end, w.ours);
            CHECK(there.device() == World::gpu);
            CHECK((there.offset() < 8 || format == "+r"));  // bitmaps are cut at whole bytes, runs are not
            w.probe([&](auto& sim) {
                CHECK(sim.calls(verb::copy) <= copies + 1);
                CHECK(sim.calls(verb::wait) == waits);
            });
            auto const back = there.to(ferry::cpu, w.back_end, w.ours);
            w.probe([&](auto& sim) { CHECK(sim.calls(verb::copy) <= copies + 2); });
            CHECK(support::shown(back.view()) == support::shown(c.view()));
            ferry::validate(back.view());
            // A slice, which is only a part of the allocation.
            auto const from = maker.below(there.length() + 1), length = maker.below(there.length() - from + 1);
            auto const part = there.slice(from, length).to(ferry::cpu, w.back_end, w.ours);
            CHECK(support::shown(part.view()) == support::shown(c.view().slice(from, length)));
            CHECK((part.offset() < 8 || format == "+r"));
            w.probe([](auto& sim) { CHECK(sim.races() == 0); });
        }
    }
}

TEST_CASE_TEMPLATE("a column that is on the requested device is not copied", World, WORLDS) {
    World w{World::gpu};
    auto const c = numbers();
    auto const same = c.slice(1, 2).to(ferry::cpu);
    CHECK(same.view().buffers()[1].data == c.view().buffers()[1].data);
    CHECK(same.offset() == 1);
    auto const there = c.to(World::gpu, w.back_end, w.ours);
    int calls = 0;
    w.probe([&](auto& sim) { calls = sim.calls(); });
    auto const again = there.to(World::gpu, w.back_end, w.ours);
    CHECK(again.view().buffers()[1].data == there.view().buffers()[1].data);
    w.probe([&](auto& sim) { CHECK(sim.calls() == calls); });
}

TEST_CASE_TEMPLATE("columns are copied from every kind of memory to every other", World, WORLDS) {
    for (auto const from : {World::gpu, World::pinned, World::managed})
        for (auto const to : {World::gpu, World::pinned, World::managed}) {
            CAPTURE(ferry::name(from.type));
            CAPTURE(ferry::name(to.type));
            World w{World::gpu};
            auto const first = numbers().to(from, w.back_end, w.ours);
            CHECK(first.device().type == from.type);
            auto const second = first.to(to, w.back_end, w.ours);
            CHECK(second.device().type == to.type);
            auto const back = second.to(ferry::cpu, w.back_end, w.ours);
            CHECK(support::shown(back.view()) == number_texts);
        }
}

TEST_CASE_TEMPLATE("the memory of a column is allocated from the caller's space", World, WORLDS) {
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
    World w{World::gpu};
    int live = 0;
    {
        auto const back = numbers().to(World::gpu, w.back_end, w.ours).to(counting{&live}, w.back_end, w.ours);
        CHECK(live == 1);
        CHECK(support::shown(back.view()) == number_texts);
    }
    CHECK(live == 0);
}

TEST_CASE_TEMPLATE("an unsupported device and an unsuitable stream are errors", World, WORLDS) {
    World w{World::gpu};
    fails(errc::no_backend, [&] { static_cast<void>(numbers().to(World::gpu)); }, {"ferry/cuda.hpp"});
    auto const there = numbers().to(World::gpu, w.back_end);
    fails(errc::no_backend, [&] { static_cast<void>(there.to(ferry::cpu)); });
    fails(errc::stream,
          [&] { static_cast<void>(there.to(ferry::cpu, w.back_end, ferry::stream_token::from_cuda_handle(0))); });
    auto const back = there.to(ferry::cpu, w.back_end);
    CHECK(support::shown(back.view()) == number_texts);
}

TEST_CASE_TEMPLATE("an empty column needs no memory and keeps its device", World, WORLDS) {
    World w{World::gpu};
    auto const there = column{}.to(World::gpu, w.back_end, w.ours);
    CHECK(there.device() == World::gpu);
    w.probe([](auto& sim) { CHECK(sim.calls() == 0); });
}

}  // namespace column_suite
