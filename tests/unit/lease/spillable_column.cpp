// Columns whose allocations leave a simulated device and return: values, shared allocations, exports, and failures.
#include <ferry/arrow.hpp>
#include <ferry/lease/spill_manager.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/lease.hpp>
#include <support/random_columns.hpp>
#include <support/sim_arrow.hpp>
#include <support/split_columns.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace support;
using ferry::already_ready;
using ferry::column;
using ferry::device_type;
using ferry::spillable_column;

constexpr std::size_t one = lease_world::bytes;

/// A device whose heap holds columns, with one allocation for each buffer.
struct world : lease_world {
    split_columns columns{gpu, [this](void const* from, std::size_t size, std::shared_ptr<void>& owner) {
                              auto const memory = std::make_shared<ferry::buffer<heap_space>>(size, space);
                              sim.write(stream, sim.block_at(memory->data()), from, size);
                              owner = memory;
                              return memory->data();
                          }};
    using lease_world::lease_world;

    [[nodiscard]] spillable_column adopt(column c) { return manager->adopt(std::move(c), stream); }
    [[nodiscard]] std::vector<std::string> shown(column const& c) {
        auto const back = c.to(ferry::cpu, sim, stream);
        ferry::validate(back.view());
        return support::shown(back.view());
    }
    [[nodiscard]] std::vector<std::string> shown(spillable_column const& c) { return shown(c.read(stream)); }
};
constexpr std::size_t all = ~std::size_t{0};

/// A struct of two columns of nullable numbers with buffers of 256 bytes, but for the bitmaps of 8.
[[nodiscard]] column frame() {
    auto owner = std::make_shared<std::array<std::int32_t, 130>>();
    for (int i = 0; i < 128; ++i) (*owner)[static_cast<std::size_t>(i)] = i;
    owner->back() = (*owner)[128] = 0x55555555;
    ferry::column_buffer const first[] = {{&(*owner)[128], 8}, {owner->data(), 256}},
                               second[] = {{&(*owner)[128], 8}, {owner->data() + 64, 256}}, none[] = {{}};
    ferry::column_parts const children[] = {{.format = "i", .name = "a", .length = 64, .buffers = first},
                                            {.format = "i", .name = "b", .length = 64, .buffers = second}};
    return ferry::make_column({.format = "+s", .length = 64, .buffers = none, .children = children}, owner);
}
constexpr std::size_t frame_bytes = 520;

TEST_CASE("columns of every type are spilled and return, in one allocation or many, and slices of them") {
    unsigned seed = 500'000;
    for (auto const* const format :
         {"n", "b", "i", "z", "vu", "dictionary", "+l", "+vL", "+w:2", "+s", "+m", "+ud:1,3", "+us:1,3", "+r"})
        for (int turn = 0; turn < 8; ++turn) {
            column_maker maker{++seed};
            INFO(format, " seed ", seed);
            world w;
            auto const whole = maker.make(format, maker.below(60), 3);
            auto const begin = maker.below(whole.length() + 1);
            auto const c = whole.slice(begin, maker.below(whole.length() - begin + 1));
            auto const expected = support::shown(c.view());
            auto there = turn % 2 == 0 ? w.columns.put(c) : c.to(w.space, w.sim, w.stream);
            auto const used = w.heap.used();
            spillable_column const s = w.adopt(std::move(there));
            CHECK(there.length() == 0);
            CHECK(w.shown(s) == expected);
            auto const adopted = w.manager->statistics().resident_bytes;
            CHECK(adopted <= used);
            for (int round = 0; round < 2; ++round) {
                CHECK(w.manager->free_up(all) == adopted);
                CHECK(w.heap.used() == 0);
                CHECK(w.shown(s) == expected);
                CHECK(w.heap.used() == adopted);
                column const back = s.read(w.stream);
                CHECK(back.name() == c.name());
                CHECK(back.format() == c.format());
            }
            CHECK(w.sim.races() == 0);
        }
}

TEST_CASE("allocations leave and return each by itself, after they have left the memory of their owner together") {
    world w;
    spillable_column const s = w.adopt(w.columns.put(frame()));
    auto const expected = w.shown(s);
    CHECK(w.manager->free_up(1) == frame_bytes);  // one owner keeps the three buffers
    CHECK(w.manager->statistics().spills == 3);
    CHECK(w.shown(s) == expected);
    CHECK(w.manager->statistics().returns == 3);
    CHECK(w.manager->free_up(1) < frame_bytes);
    CHECK(w.manager->statistics().spills == 4);
    CHECK(w.shown(s) == expected);
    CHECK(w.manager->statistics().returns == 4);
}

TEST_CASE("slices, children and copies of one column are one victim") {
    world w;
    auto c = w.columns.put(frame());
    auto slice = c.slice(8, 30), child = c.child("b"), copy = c;
    auto const values = w.shown(slice), child_values = w.shown(child);
    spillable_column const a = w.adopt(std::move(slice)), b = w.adopt(std::move(child));
    CHECK(w.manager->statistics().resident_bytes == frame_bytes);
    CHECK(w.manager->free_up(all) == 0);  // `c` and `copy` keep the memory
    spillable_column whole = w.adopt(std::move(c));
    CHECK(w.manager->free_up(all) == 0);
    copy = {};
    {
        auto const lease = b.read(w.stream);
        CHECK(w.manager->free_up(all) == 0);
    }
    CHECK(w.manager->free_up(all) == frame_bytes);
    CHECK(w.heap.used() == 0);
    CHECK(w.manager->statistics().spills == 3);
    CHECK(w.shown(b) == child_values);
    CHECK(w.heap.used() == 264);
    CHECK(w.shown(a) == values);
    CHECK(w.heap.used() == frame_bytes);
    whole = {};
    CHECK(w.shown(a) == values);
    CHECK(w.manager->statistics().returns == 3);
}

TEST_CASE("the buffers of a column with one allocation are one victim, also of its children") {
    world w;
    auto c = frame().to(w.space, w.sim, w.stream);
    auto const bytes = w.heap.used();
    auto child = c.child(1);
    auto const values = w.shown(child);
    spillable_column const a = w.adopt(std::move(child)), b = w.adopt(std::move(c));
    CHECK(w.manager->free_up(1) == bytes);
    CHECK(w.manager->statistics().spills == 1);
    CHECK(w.shown(a) == values);
    CHECK(w.manager->free_up(1) == bytes);
}

TEST_CASE("a column exported through Arrow keeps its memory until the array is released") {
    world w;
    sim_arrow events{w.sim};
    auto& manager = *w.manager;
    auto const stream = w.stream;
    auto c = w.columns.put(frame());
    ArrowDeviceArray array{};
    ArrowSchema schema{};
    // [column]
    ferry::spillable_column const s = manager.adopt(std::move(c), stream);
    {
        ferry::column const leased = s.read(stream);  // on the device, until `array` is released
        ferry::to_arrow(leased, &array, events, stream);
    }
    // [/column]
    column const kept = frame();
    ferry::to_arrow_schema(kept.view(), &schema);
    auto const expected = support::shown(kept.view());
    CHECK(w.manager->free_up(all) == 0);
    {
        column const imported = ferry::from_arrow(&array, &schema, events, w.stream);
        CHECK(w.shown(imported) == expected);
        CHECK(w.manager->free_up(all) == 0);
    }
    CHECK(w.manager->free_up(all) == frame_bytes);
    CHECK(w.shown(s) == expected);
}

TEST_CASE("a spill of a column waits for the streams of its leases") {
    world w;
    spillable_column const s = w.adopt(w.columns.put(frame()));
    auto const expected = w.shown(s);
    auto const gate = w.sim.close(w.other);
    {
        column const c = s.read(w.stream);
        static_cast<void>(s.read(w.other));
    }
    opener const opens{w.sim, gate};
    CHECK(w.manager->free_up(all) == frame_bytes);
    CHECK(gate.is_open());
    CHECK(w.shown(s) == expected);
}

TEST_CASE("a dropped column is freed behind its work, and a limit holds for columns and reservations") {
    world w{16 * one, {.limit = frame_bytes}};
    std::vector<spillable_column> kept;
    std::vector<std::string> expected;
    for (int i = 0; i < 4; ++i) {
        auto room = w.manager->reserve(frame_bytes);
        auto c = w.columns.put(frame());
        expected = w.shown(c);
        kept.push_back(w.manager->adopt(std::move(c), w.stream, std::move(room)));
        CHECK(w.heap.most_used() == frame_bytes);
    }
    for (auto const& s : kept) CHECK(w.shown(s) == expected);
    CHECK(w.heap.most_used() == frame_bytes);
    kept.push_back(w.adopt(w.columns.put(frame())));  // without a reservation
    CHECK(w.manager->statistics().resident_bytes <= frame_bytes);
    CHECK(w.shown(kept.back()) == expected);
    auto const gate = w.sim.close(w.stream);
    static_cast<void>(kept.back().read(w.stream));
    kept.clear();
    CHECK(w.heap.used() == frame_bytes);
    opener const opens{w.sim, gate};
    CHECK(w.manager->free_up(1) > 0);
    static_cast<void>(w.manager->free_up(all));
    CHECK(w.heap.used() == 0);
    CHECK(w.manager->statistics().resident_bytes == 0);
}

TEST_CASE("each allocation fails once: the values stay, and nothing is lost") {
    auto const c = frame();
    auto const expected = support::shown(c.view());
    SUBCASE("of the host") {
        bool has_failed = true;
        int n = 0;
        while (has_failed && ++n < 500) {
            CAPTURE(n);
            world w;
            auto there = w.columns.put(c);
            spillable_column s;
            {
                allocation_window const window{n};
                try {
                    s = w.manager->adopt(std::move(there), w.stream);
                    static_cast<void>(w.manager->free_up(all));
                    static_cast<void>(s.read(w.stream));
                } catch (std::bad_alloc const&) {
                } catch (ferry::error const&) {
                }
                has_failed = window.has_failed();
            }
            CHECK((s ? w.shown(s) : w.shown(there)) == expected);
            s = {};
            there = {};
            static_cast<void>(w.manager->free_up(all));
            CHECK(w.heap.used() == w.manager->statistics().resident_bytes);
            CHECK((w.heap.used() == 0 || w.manager->statistics().quarantined != 0));
        }
        CHECK(n > 30);
    }
    SUBCASE("of the device, of host memory, copies, and marks") {
        for (int n = 1; n <= 12; ++n)
            for (int which = 0; which < 4; ++which) {
                CAPTURE(n);
                CAPTURE(which);
                world w;
                spillable_column const s = w.adopt(w.columns.put(c));
                if (which == 0) w.heap.fail_at(n);
                else w.sim.fail_at(which == 1 ? verb::allocate : which == 2 ? verb::copy : verb::mark, n);
                for (int turn = 0; turn < 3; ++turn) {
                    static_cast<void>(w.manager->free_up(all));
                    try {
                        static_cast<void>(s.read(w.stream));
                    } catch (ferry::error const&) {
                    }
                }
                w.heap.fail_at(0);
                for (auto const v : {verb::allocate, verb::copy, verb::mark}) w.sim.fail_at(v, 0);
                CHECK(w.shown(s) == expected);
                CHECK(w.manager->statistics().leased_bytes == 0);
                CHECK(w.heap.used() >= frame_bytes);
            }
    }
}

TEST_CASE("random programs of columns keep the values of an oracle, also when one operation fails") {
    struct held {
        spillable_column handle;
        std::optional<column> leased;
        std::vector<std::string> expected;
    };
    std::uint64_t spills = 0, returns = 0;
    for (unsigned seed = 1; seed <= 60; ++seed) {
        CAPTURE(seed);
        world w;
        column_maker maker{seed};
        std::vector<held> all_held;
        int wrong = 0, checked = 0;
        auto const attempt = [](auto f) {
            try {
                f();
            } catch (ferry::error const&) {
            } catch (std::bad_alloc const&) {
            }
        };
        auto const check = [&](column const& c, std::vector<std::string> const& expected) {
            if (w.shown(c) != expected) ++wrong;
            ++checked;
        };
        auto const fail_at = [&](int n) {
            w.heap.fail_at(seed % 5 == 1 ? n : 0);
            for (auto const v : {verb::allocate, verb::copy, verb::mark})
                w.sim.fail_at(v,
                              seed % 5 == 2 + static_cast<unsigned>(v == verb::copy) + 2 * (v == verb::mark) ? n : 0);
        };
        fail_at(static_cast<int>(1 + maker.below(20)));
        for (int step = 0; step < 60; ++step) {
            auto const which = all_held.empty() ? 0 : maker.below(12);
            auto const at = static_cast<std::size_t>(maker.below(static_cast<std::int64_t>(all_held.size())));
            if (which < 3) {
                attempt([&] {
                    auto const c = maker.make(maker.any_format(3), maker.below(40), 3);
                    auto there = maker.below(2) == 0 ? w.columns.put(c) : c.to(w.space, w.sim, w.stream);
                    auto const begin = maker.below(c.length() + 1), length = maker.below(c.length() - begin + 1);
                    auto slice = there.slice(begin, length);
                    all_held.push_back({w.adopt(std::move(there)), {}, support::shown(c.view())});
                    auto const part = c.slice(begin, length);
                    all_held.push_back({w.adopt(std::move(slice)), {}, support::shown(part.view())});
                });
            } else if (which < 6) {
                attempt([&] { check(all_held[at].handle.read(w.stream), all_held[at].expected); });
            } else if (which == 6) {
                attempt([&] { all_held[at].leased = all_held[at].handle.read(w.other); });
            } else if (which < 9) {
                static_cast<void>(w.manager->free_up(static_cast<std::size_t>(1) << maker.below(14)));
            } else if (which == 9) {
                attempt([&] {
                    if (all_held[at].leased) check(*all_held[at].leased, all_held[at].expected);
                });
                all_held[at].leased = {};
            } else {
                std::swap(all_held[at], all_held.back());
                all_held.pop_back();
            }
        }
        fail_at(0);
        for (auto& it : all_held) it.leased = {};
        for (auto const& it : all_held) check(it.handle.read(w.stream), it.expected);
        CHECK(wrong == 0);
        CHECK(checked > 3);
        all_held.clear();
        static_cast<void>(w.manager->free_up(all));
        auto const s = w.manager->statistics();
        CHECK(s.leased_bytes == 0);
        CHECK(s.resident_bytes == w.heap.used());
        CHECK((w.heap.used() == 0 || s.quarantined != 0));
        CHECK(w.sim.races() == 0);
        CHECK(w.sim.reads_after_release() == 0);
        spills += s.spills, returns += s.returns;
    }
    CHECK(spills > 1000);
    CHECK(returns > 500);
}

TEST_CASE("threads read slices of one column while others make room") {
    world w;
    auto c = w.columns.put(frame());
    w.sim.finish(w.stream);
    std::vector<spillable_column> slices;
    std::vector<std::vector<std::string>> expected;
    for (int i = 0; i < 8; ++i) {
        auto slice = c.slice(8 * i, 8);
        expected.push_back(w.shown(slice));
        slices.push_back(w.adopt(std::move(slice)));
    }
    c = {};
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 8; ++i)
        threads.emplace_back([&, i] {
            auto const on = w.sim.make_stream(device_type::cuda);
            for (int turn = 0; turn < 6; ++turn) {
                static_cast<void>(w.manager->free_up(1));
                column const leased = slices[i].read(on);
                auto const back = leased.to(ferry::cpu, w.sim, on);
                if (support::shown(back.view()) != expected[i]) ++wrong;
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    slices.clear();
    static_cast<void>(w.manager->free_up(all));
    CHECK(w.heap.used() == 0);
    CHECK(w.sim.races() == 0);
}

TEST_CASE("invalid columns are errors, and lose nothing") {
    world w;
    auto host = frame();
    fails(errc::device, [&] { static_cast<void>(w.manager->adopt(std::move(host), already_ready)); }, {"device"});
    CHECK(host.length() == 64);
    auto c = w.columns.put(host);
    column const mixed_children[] = {c.child(0), host.child(1)};
    auto mixed = ferry::make_struct(mixed_children);
    fails(errc::device, [&] { static_cast<void>(w.manager->adopt(std::move(mixed), already_ready)); }, {"children"});
    auto const wrong = w.sim.make_stream(device_type::ext_dev);
    fails(errc::stream, [&] { static_cast<void>(w.manager->adopt(std::move(c), wrong)); });
    w.sim.fail_at(verb::mark, 2);
    fails(errc::driver, [&] { static_cast<void>(w.manager->adopt(std::move(c), w.stream)); });
    CHECK(c.length() == 64);
    CHECK(w.manager->statistics().resident_bytes == 0);
    mixed = {};
    fails(errc::consumed, [&] { static_cast<void>(spillable_column{}.read(w.stream)); }, {"adopt"});
    spillable_column const s = w.adopt(std::move(c));
    fails(errc::stream, [&] { static_cast<void>(s.read(wrong)); });
    column const leased = s.read(w.stream);
    w.manager.reset();
    fails(errc::consumed, [&] { static_cast<void>(s.read(w.stream)); }, {"spill_manager", "destroyed"});
    CHECK(w.shown(leased) == w.shown(leased));
}

}  // namespace
