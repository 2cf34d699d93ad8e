// Slices of one memory, which is written once.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>

#include <support/column_parts.hpp>
#include <support/fails.hpp>
#include <support/random_columns.hpp>
#include <support/sim_space.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::column_parts;
using ferry::column_view;
using ferry::detail::slices;
using support::column_maker;
using support::packed;
using support::parts_store;
using support::shown;

namespace {

std::size_t size(column const& c) { return c.view().node().arena.size(); }

/// What was packed loses its slices as it moves, or moves as it is; a part of it is packed on a device as on the host.
void check_on_a_device(column const& c, column const& together) {
    ferry::device const gpu{ferry::device_type::cuda, 0};
    support::sim_system sim{gpu};
    auto const stream = sim.make_stream(gpu.type);
    auto const allocate = [&](std::size_t bytes) { return sim.allocate(gpu, bytes, stream); };
    auto const move = [&](column const& from, ferry::device at) {
        return ferry::detail::column_mover<support::sim_system, decltype(allocate)>{
            sim, allocate, at, gpu, stream, std::source_location::current()}
            .move(from, slices::together);
    };
    auto const cut = together.to(gpu, sim, stream);
    CHECK(ferry::detail::has_no_slices(cut.view().node()));
    CHECK(shown(cut.to(ferry::cpu, sim, stream)) == shown(c.view()));
    auto const moved = move(together, ferry::cpu);
    CHECK(size(moved) <= size(together));
    CHECK(shown(moved.to(ferry::cpu, sim, stream)) == shown(c.view()));
    auto const part = c.length() / 3, rest = c.length() - part;
    auto const made = move(moved.slice(part, rest), gpu);
    CHECK(size(made) == size(packed(together.slice(part, rest), slices::together)));
    CHECK(shown(made.to(ferry::cpu, sim, stream)) == shown(c.slice(part, rest)));
    CHECK(sim.races() == 0);
}

std::vector<std::string> every_format() {
    std::vector<std::string> all(std::begin(column_maker::leaves), std::end(column_maker::leaves));
    all.insert(all.end(), std::begin(column_maker::nested), std::end(column_maker::nested));
    return all;
}

}  // namespace

TEST_CASE("overlapping fields use the memory of their union, at any depth") {
    unsigned seed = 500'000;
    for (auto const& format : every_format())
        for (int turn = 0; turn < 30; ++turn) {
            column_maker maker{++seed};
            auto const whole = maker.make(format, 4 + maker.below(90), 3);
            INFO(format, " seed ", seed);
            auto const length = whole.length() / 2 + 1;  // any two of this length overlap
            std::int64_t first = whole.length(), last = 0;
            auto const part = [&] {
                auto const begin = maker.below(whole.length() - length + 1);
                first = std::min(first, begin);
                last = std::max(last, begin + length);
                return whole.slice(begin, length);
            };
            std::vector<column> const parts{part(), part(), part(), part()};
            parts_store store;
            auto const inner = store.rows({store.of(parts[0].view(), "x")}, "inner");
            auto const outer = store.rows({inner, store.of(parts[1].view(), "y"), store.of(parts[2].view(), "z")});
            for (bool const below_a_list : {false, true}) {
                column_parts const fields[] = {store.list(outer), store.list(store.of(parts[3].view(), "item"))};
                column_buffer const none[1] = {};
                auto const c = below_a_list ? ferry::make_column(
                                                  {.format = "+s", .length = 1, .buffers = none, .children = fields},
                                                  whole.owner())
                                            : ferry::make_column(outer, whole.owner());
                auto const together = packed(c.view(), slices::together);
                REQUIRE(shown(together.view()) == shown(c.view()));
                ferry::validate(together.view());
                auto const rows = below_a_list ? together.child(0).child(0) : together;
                CHECK(rows.child("inner").child("x").null_count() == parts[0].null_count());
                CHECK(rows.child("y").null_count() == parts[1].null_count());
                CHECK(rows.child("z").null_count() == parts[2].null_count());
                auto const once = packed(whole.slice(first, last - first), slices::apart);
                CHECK(size(together) <= size(once) + (below_a_list ? 128 : 0));  // the lists' offsets
                auto const again = packed(together.view(), slices::together);
                REQUIRE(shown(again.view()) == shown(c.view()));
                CHECK(size(again) == size(together));
                if (turn < 8) check_on_a_device(c, together);
                auto const apart = packed(together.view(), slices::apart);
                CHECK(shown(apart.view()) == shown(c.view()));
                CHECK(size(apart) == size(ferry::compact(c.view())));
            }
        }
}

TEST_CASE("columns of different types share common buffers, and disjoint slices have no gap between them") {
    std::vector<std::int64_t> const values(3000, 7);
    column_buffer const buffers[] = {{}, {values.data(), 24000}};
    auto const numbers = ferry::make_column({.format = "l", .length = 3000, .buffers = buffers}, nullptr);
    parts_store store;
    auto times = store.of(numbers.slice(100, 1000), "times");
    times.format = "tsn:UTC";
    auto const mixed = ferry::make_column(store.rows({store.of(numbers.slice(0, 1000), "numbers"), times}), nullptr);
    auto const made = packed(mixed.view(), slices::together);
    CHECK(size(made) == 8832);  // 1100 of them
    CHECK(made.child("times").offset() == 100);
    CHECK(made.child("times").format() == "tsn:UTC");
    CHECK(made.view().child("numbers").buffers()[1].data == made.view().child("times").buffers()[1].data);
    auto const apart = ferry::make_column(
        store.rows({store.of(numbers.slice(0, 1000), "a"), store.of(numbers.slice(2000, 1000), "b")}), nullptr);
    CHECK(size(packed(apart.view(), slices::together)) == 16000);
    auto const side_by_side = ferry::make_column(
        store.rows({store.of(numbers.slice(0, 1000), "a"), store.of(numbers.slice(1000, 1000), "b")}), nullptr);
    CHECK(packed(side_by_side.view(), slices::together).child("b").offset() == 0);
}

TEST_CASE("slices are found in any number of structs with different other fields") {
    std::vector<std::int64_t> const times(1100, 7);
    std::vector<std::vector<std::int8_t>> own;
    for (std::int8_t i = 0; i < 100; ++i) own.emplace_back(1000, i);
    column_buffer const buffers[] = {{}, {times.data(), 8800}};
    auto const all = ferry::make_column({.format = "l", .length = 1100, .buffers = buffers}, nullptr);
    parts_store store;
    std::vector<column> values;
    for (auto const& v : own) {
        column_buffer const mine[] = {{}, {v.data(), 1000}};
        values.push_back(ferry::make_column({.format = "c", .length = 1000, .buffers = mine}, nullptr));
    }
    std::vector<column_parts> fields;
    for (std::int64_t i = 0; i < 100; ++i)
        fields.push_back(store.rows(
            {store.of(all.slice(i, 1000), "time"), store.of(values[static_cast<std::size_t>(i)].view(), "value")},
            "s"));
    auto const c = ferry::make_column(store.rows(fields), nullptr);
    auto const made = packed(c.view(), slices::together);
    CHECK(shown(made.view()) == shown(c.view()));
    CHECK(size(made) == 8832 + 100 * 1024);  // 1099 times
}

TEST_CASE("text and binary share slices of one memory") {
    std::string const text(999, 'x');
    std::vector<std::int32_t> offsets;
    for (std::int32_t i = 0; i < 1000; ++i) offsets.push_back(i);
    column_buffer const buffers[] = {{}, {offsets.data(), 4000}, {text.data(), 999}};
    auto const whole = ferry::make_column({.format = "u", .length = 999, .buffers = buffers}, nullptr);
    parts_store store;
    auto bytes = store.of(whole.slice(99, 900), "bytes");
    bytes.format = "z";
    auto const c = ferry::make_column(store.rows({store.of(whole.slice(0, 900), "text"), bytes}), nullptr);
    auto const made = packed(c.view(), slices::together);
    CHECK(shown(made.view()) == shown(c.view()));
    CHECK(made.view().child("bytes").format() == "z");
    CHECK(made.view().child("bytes").offset() == 99);
    CHECK(size(made) == 4032 + 1024);
}

TEST_CASE("strings in one memory are stored once, with narrow and wide offsets") {
    std::string const text(999, 'x');
    std::vector<std::int32_t> narrow;
    std::vector<std::int64_t> wide;
    for (std::int32_t i = 0; i < 1000; ++i) narrow.push_back(i), wide.push_back(999 - (999 - i) / 9 * 9);
    std::vector<unsigned char> const bits(125, 0xfe);
    column_buffer const first[] = {{}, {narrow.data(), 4000}, {text.data(), 999}},
                        second[] = {{}, {wide.data(), 8000}, {text.data(), 999}};
    column_buffer const nulls[] = {{bits.data(), 125}, {narrow.data(), 4000}, {text.data(), 999}};
    parts_store store;
    column_parts const a{.format = "u", .name = "a", .length = 999, .buffers = first},
        b{.format = "U", .name = "b", .length = 999, .buffers = second};
    column_parts const with_nulls{.format = "u", .name = "c", .length = 999, .buffers = nulls};
    auto const c = ferry::make_column(store.rows({a, b, with_nulls}), nullptr);
    for (auto const how : {slices::together, slices::apart}) {
        auto const made = packed(c.view(), how);
        CHECK(shown(made.view()) == shown(c.view()));
        CHECK(made.view().child("a").buffers()[2].data == made.view().child("b").buffers()[2].data);
        // Where nulls are zero.
        CHECK(made.view().child("a").buffers()[2].data != made.view().child("c").buffers()[2].data);
    }
}

TEST_CASE("slices with different nulls are copied, since values of nulls are zero") {
    std::vector<std::int32_t> const values(1000, 7);
    std::vector<unsigned char> const bits(125, 0x55);
    column_buffer const valid[] = {{}, {values.data(), 4000}}, nulls[] = {{bits.data(), 125}, {values.data(), 4000}};
    parts_store store;
    column_parts const a{.format = "i", .name = "a", .length = 1000, .buffers = valid},
        b{.format = "i", .name = "b", .length = 1000, .buffers = nulls};
    auto const c = ferry::make_column(store.rows({a, b}), nullptr);
    auto const made = packed(c.view(), slices::together);
    CHECK(shown(made.view()) == shown(c.view()));
    CHECK(made.view().child("a").buffers()[1].data != made.view().child("b").buffers()[1].data);
}

TEST_CASE("string views share the data that they point to") {
    std::string const text(5000, 'x');
    struct view {
        std::int32_t size;
        char prefix[4];
        std::int32_t buffer, offset;
    };
    std::vector<view> const low{{3000, {'x', 'x', 'x', 'x'}, 0, 0}}, high{{3000, {'x', 'x', 'x', 'x'}, 0, 2000}};
    std::int64_t const lengths[] = {5000};
    column_buffer const first[] = {{}, {low.data(), 16}, {text.data(), 5000}, {lengths, 8}},
                        second[] = {{}, {high.data(), 16}, {text.data(), 5000}, {lengths, 8}};
    parts_store store;
    column_parts const a{.format = "vu", .name = "a", .length = 1, .buffers = first},
        b{.format = "vz", .name = "b", .length = 1, .buffers = second};
    auto const c = ferry::make_column(store.rows({a, b}), nullptr);
    for (auto const how : {slices::together, slices::apart}) {
        auto const made = packed(c.view(), how);
        CHECK(shown(made.view()) == shown(c.view()));
        CHECK(size(made) == 5056 + 4 * 64);
        CHECK(made.view().child("a").buffers()[2].data == made.view().child("b").buffers()[2].data);
    }
}

TEST_CASE("many slices are joined in few passes") {
    std::vector<std::int32_t> const values(4000, 7);
    column_buffer const buffers[] = {{}, {values.data(), 16000}};
    auto const numbers = ferry::make_column({.format = "i", .length = 4000, .buffers = buffers}, nullptr);
    parts_store store;
    std::vector<column_parts> fields;
    for (std::int64_t i = 0; i < 2000; ++i) fields.push_back(store.of(numbers.slice(i, 2000), "x"));
    auto const c = ferry::make_column(store.rows(fields), nullptr);
    auto const made = packed(c.view(), slices::together);
    CHECK(size(made) == 16000);
    CHECK(made.child(1999).offset() == 1999);
    CHECK(made.child(1999).values<std::int32_t>()[1999] == 7);
}
