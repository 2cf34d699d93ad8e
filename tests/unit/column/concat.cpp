// Compaction and concatenation: every type, every offset, and invalid values.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/random_columns.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <new>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::column_view;
using ferry::errc;
using support::column_maker;
using support::fails;
using support::int32s;

namespace {

/// No offset, buffers aligned and in one allocation, zeros after each, and zeros for nulls.
void check_compact(column_view c, std::span<std::byte const> arena) {
    CHECK(c.offset() == 0);
    CHECK(c.node().arena.data() == arena.data());
    for (std::size_t i = 0; i < c.buffers().size(); ++i) {
        auto const& b = c.buffers()[i];
        auto const* const p = static_cast<std::byte const*>(b.data);
        if (p == nullptr || b.bytes == 0) continue;
        CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
        REQUIRE(p >= arena.data());
        REQUIRE(p + b.bytes <= arena.data() + arena.size());
        auto const end = static_cast<std::size_t>(p - arena.data() + b.bytes);
        for (auto at = end; at % 64 != 0; ++at) REQUIRE(arena[at] == std::byte{});
    }
    bool const has_validity = c.layout().has_validity() && c.buffers()[0].data != nullptr;
    if (has_validity) CHECK(c.null_count() > 0);  // otherwise there is no validity
    if (auto const bits = ferry::item_bits(c.type()); has_validity && bits >= 8)
        for (std::int64_t i = 0; i < c.length(); ++i)
            for (std::int64_t k = 0; !c.validity()[i] && k < bits / 8; ++k)
                REQUIRE(static_cast<std::byte const*>(c.buffers()[1].data)[i * bits / 8 + k] == std::byte{});
    for (int i = 0; i < c.child_count(); ++i) check_compact(c.child(i), arena);
    if (c.has_dictionary()) check_compact(c.dictionary(), arena);
}

std::vector<std::string> every_format() {
    std::vector<std::string> all(std::begin(column_maker::leaves), std::end(column_maker::leaves));
    all.insert(all.end(), std::begin(column_maker::nested), std::end(column_maker::nested));
    return all;
}

}  // namespace

TEST_CASE("a compact column has the same values, and nothing else") {
    unsigned seed = 1;
    for (auto const& format : every_format())
        for (std::int64_t offset = 0; offset < 18; ++offset)
            for (int turn = 0; turn < 4; ++turn) {
                column_maker maker{++seed};
                auto const whole = maker.make(format, maker.below(turn == 0 ? 3 : 90), 3, offset);
                INFO(format, " seed ", seed);
                auto const begin = maker.below(whole.length() + 1), length = maker.below(whole.length() - begin + 1);
                for (auto const& c : {whole, whole.slice(begin, length)}) {
                    auto const made = ferry::compact(c.view());
                    REQUIRE(support::shown(made.view()) == support::shown(c.view()));
                    CHECK(made.format() == c.format());
                    check_compact(made.view(), made.view().node().arena);
                }
            }
}

TEST_CASE("chunks are joined to one column") {
    unsigned seed = 100'000;
    for (auto const& format : every_format())
        for (int turn = 0; turn < 12; ++turn) {
            column_maker maker{++seed};
            INFO(format, " seed ", seed);
            auto const a = maker.make(format, maker.below(70), 3);
            std::vector<column> chunks{a.slice(0, maker.below(a.length() + 1))};
            std::vector<std::string> expected = support::shown(chunks[0].view());
            for (int k = 0; k < 3; ++k) {  // of the same type: parts of the same one
                auto const begin = maker.below(a.length() + 1);
                chunks.push_back(a.slice(begin, maker.below(a.length() - begin + 1)));
                for (auto& text : support::shown(chunks.back().view())) expected.push_back(text);
            }
            auto const made = ferry::concat(chunks);
            REQUIRE(support::shown(made.view()) == expected);
            check_compact(made.view(), made.view().node().arena);
        }
}

TEST_CASE("a chunk without items may have any offset, and no buffers") {
    constexpr std::int64_t far = std::int64_t{1} << 62;
    column_buffer const none[4] = {};
    for (auto const* format : {"i", "b", "u", "U", "vu", "+l", "+vl", "d:5,2", "w:3"}) {
        INFO(format);
        auto const type = *ferry::parse_format(format);
        auto const layout = ferry::layout_of(type);
        auto const of = [&](std::int64_t offset) {
            column_buffer const items[2] = {};
            ferry::column_parts const child{.format = "i", .buffers = items};
            auto const buffers = static_cast<std::size_t>(layout.buffer_count + layout.is_variadic);
            return ferry::make_column({.format = format,
                                       .offset = offset,
                                       .buffers = {none, buffers},
                                       .children = {&child, layout.child_count == 1 ? 1u : 0u}},
                                      nullptr);
        };
        column const chunks[] = {of(far), of(0), of(far)};
        CHECK(ferry::concat(chunks).length() == 0);
        CHECK(ferry::compact(chunks[0]).offset() == 0);
    }
}

TEST_CASE("a single chunk is shared; no chunks, and chunks of different types, are refused") {
    auto const a = int32s({1, 2, 3});
    auto const same = ferry::concat({&a, 1});
    CHECK(same.view().buffers()[1].data == a.view().buffers()[1].data);
    fails(errc::argument, [] { static_cast<void>(ferry::concat({})); }, {"no chunk"});
    column const different[] = {a, int32s({1}, {.format = "f"})};
    fails(errc::argument, [&] { static_cast<void>(ferry::concat(different)); }, {"column: ", "`i`", "`f`"});
}

namespace {

column dictionary_of(std::vector<std::int8_t> const& indices, std::vector<std::int32_t> const& values) {
    struct storage {
        std::vector<std::int8_t> indices;
        std::vector<std::int32_t> values;
    };
    auto owner = std::make_shared<storage>(storage{indices, values});
    column_buffer const inner[] = {{}, {owner->values.data(), static_cast<std::int64_t>(4 * values.size())}};
    column_buffer const outer[] = {{}, {owner->indices.data(), static_cast<std::int64_t>(indices.size())}};
    ferry::column_parts const dictionary{
        .format = "i", .length = static_cast<std::int64_t>(values.size()), .buffers = inner};
    return ferry::make_column({.format = "c",
                               .length = static_cast<std::int64_t>(indices.size()),
                               .buffers = outer,
                               .dictionary = &dictionary,
                               .flags = 3},
                              owner);
}

}  // namespace

TEST_CASE("joined dictionaries have distinct values; equal ones are shared") {
    column const equal[] = {dictionary_of({0, 1}, {5, 6}), dictionary_of({1}, {5, 6})};
    auto const one = ferry::concat(equal);
    CHECK(support::shown(one.dictionary()) == std::vector<std::string>{"05000000", "06000000"});
    CHECK((one.view().flags() & 1) == 1);
    column const two[] = {equal[0], dictionary_of({2, 0, 1}, {7, 5, 9}), equal[1]};
    auto const joined = ferry::concat(two);
    CHECK(support::shown(joined.dictionary()) ==
          std::vector<std::string>{"05000000", "06000000", "07000000", "09000000"});
    CHECK(support::shown(joined.view()) ==
          std::vector<std::string>{"#05000000", "#06000000", "#09000000", "#07000000", "#05000000", "#06000000"});
    column const repeated[] = {dictionary_of({1, 2}, {4, 4, 8}), dictionary_of({0}, {8})};
    CHECK(ferry::concat(repeated).dictionary().length() == 2);
    column const twice[] = {dictionary_of({1, 2}, {4, 4, 8}), dictionary_of({0}, {4, 4, 8})};
    CHECK(ferry::concat(twice).dictionary().length() == 3);  // as they are
    column const empty[] = {dictionary_of({}, {}), dictionary_of({0}, {8}), dictionary_of({}, {9})};
    CHECK(support::shown(ferry::concat(empty).dictionary()) == std::vector<std::string>{"08000000", "09000000"});
}

TEST_CASE("in values with a dictionary of their own, a null index and the index of a null value are one value, null") {
    std::int8_t const index[] = {0};
    unsigned char const null_bit[] = {0};
    column_buffer const valid[] = {{}, {index, 1}}, null[] = {{null_bit, 1}, {index, 1}};
    auto const of = [&](std::span<column_buffer const> indices, std::span<column_buffer const> items) {
        ferry::column_parts const words{.format = "c", .length = 1, .buffers = items},
            values{.format = "c", .length = 1, .buffers = indices, .dictionary = &words};
        return ferry::make_column({.format = "c", .length = 1, .buffers = valid, .dictionary = &values}, nullptr);
    };
    column const chunks[] = {of(null, valid), of(valid, null)};
    auto const values = ferry::concat(chunks).dictionary();
    CHECK(values.length() == 1);
    CHECK(values.null_count() == 1);
}

TEST_CASE("a joined dictionary is ordered if all dictionaries are the beginning of one") {
    auto const ordered = [](std::vector<std::int32_t> const& a, std::vector<std::int32_t> const& b) {
        column const chunks[] = {dictionary_of({0}, a), dictionary_of({0}, b)};
        auto const joined = ferry::concat(chunks);
        return (joined.view().flags() & 1) == 1;
    };
    CHECK(ordered({5, 6}, {5, 6}));
    CHECK(ordered({5, 6}, {5, 6, 7}));
    CHECK(ordered({5, 6, 7}, {5, 6}));
    CHECK(!ordered({5, 6}, {5, 7}));
    CHECK(!ordered({5, 6}, {6, 5}));
}

TEST_CASE("indices that are too narrow for the distinct values are an error that names the type to use") {
    std::vector<std::int32_t> low(100), high(100);
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), 27);
    column const all[] = {dictionary_of({99}, low), dictionary_of({99}, high), dictionary_of({0}, {0})};
    CHECK(ferry::concat(all).dictionary().length() == 127);
    high.push_back(127);
    high.push_back(128);
    column const many[] = {all[0], dictionary_of({0}, high)};
    fails(errc::overflow, [&] { static_cast<void>(ferry::concat(many)); },
          {"column: ", "129 distinct values", "int8", "use int16 indices"});
    high.pop_back();
    column const fits[] = {all[0], dictionary_of({100}, high)};
    CHECK(ferry::concat(fits).dictionary().length() == 128);
    auto const chunk = [](char const* format, std::int32_t first) {
        auto owner = std::make_shared<std::vector<std::int32_t>>(40'000);
        std::iota(owner->begin(), owner->end(), first);
        column_buffer const values[] = {{}, {owner->data(), 160'000}};
        ferry::column_parts const dictionary{.format = "i", .length = 40'000, .buffers = values};
        column_buffer const none[] = {{}, {}};
        return ferry::make_column({.format = format, .buffers = none, .dictionary = &dictionary}, owner);
    };
    auto const joined = [&](char const* format) {
        column const chunks[] = {chunk(format, 0), chunk(format, 30'000)};
        return ferry::concat(chunks).dictionary().length();
    };
    CHECK(joined("i") == 70'000);
    CHECK(joined("L") == 70'000);
    fails(errc::overflow, [&] { static_cast<void>(joined("s")); }, {"70000 distinct values", "int16", "use int32"});
    fails(errc::overflow, [&] { static_cast<void>(joined("C")); }, {"70000 distinct values", "uint8", "use uint32"});
}

TEST_CASE("indices outside of a dictionary are an error when dictionaries are joined") {
    auto const first = dictionary_of({0, 1}, {5, 6});
    column const wrong[] = {first, dictionary_of({3}, {7, 8, 9})};
    fails(errc::bad_column, [&] { static_cast<void>(ferry::concat(wrong)); }, {"index 3", "3 items"});
    column const negative[] = {first, dictionary_of({-1}, {7, 8, 9})};
    fails(errc::bad_column, [&] { static_cast<void>(ferry::concat(negative)); });
    std::int32_t const ends[] = {0, 9};
    std::int8_t const index = 0;
    column_buffer const text[] = {{}, {ends, 8}, {"abc", 3}}, indices[] = {{}, {&index, 1}};
    ferry::column_parts const words{.format = "u", .length = 1, .buffers = text};
    auto const invalid =
        ferry::make_column({.format = "c", .length = 1, .buffers = indices, .dictionary = &words}, nullptr);
    std::int32_t const good_ends[] = {0, 3};
    column_buffer const good_text[] = {{}, {good_ends, 8}, {"abc", 3}};
    ferry::column_parts const good_words{.format = "u", .length = 1, .buffers = good_text};
    column const chunks[] = {
        ferry::make_column({.format = "c", .length = 1, .buffers = indices, .dictionary = &good_words}, nullptr),
        invalid};
    fails(errc::bad_column, [&] { static_cast<void>(ferry::concat(chunks)); },
          {"column<dictionary>: item 0: its offsets"});
}

namespace {

/// The parts of a column, with another dictionary.
struct parts_of {
    std::deque<std::vector<ferry::column_parts>> children{};
    [[nodiscard]] ferry::column_parts make(column_view c) {
        auto& below = children.emplace_back();
        for (int i = 0; i < c.child_count(); ++i) below.push_back(make(c.child(i)));
        if (c.has_dictionary()) below.push_back(make(c.dictionary()));
        return {.format = c.format(),
                .name = c.name(),
                .length = c.length(),
                .offset = c.offset(),
                .buffers = c.buffers(),
                .children = {below.data(), static_cast<std::size_t>(c.child_count())},
                .dictionary = c.has_dictionary() ? &below.back() : nullptr,
                .flags = c.flags()};
    }
};

/// The items, whether null by their index or by their value.
std::vector<std::string> texts(column_view c) {
    auto all = support::shown(c);
    for (auto& text : all) std::erase(text, '#');
    return all;
}

}  // namespace

TEST_CASE("random dictionaries of every type are joined to distinct values") {
    unsigned seed = 500'000;
    for (auto const& format : every_format())
        for (int turn = 0; turn < 12; ++turn) {
            column_maker maker{++seed};
            INFO(format, " seed ", seed);
            auto const values = maker.make(format, 1 + maker.below(12), 3);
            std::deque<std::vector<std::int16_t>> indices;
            std::vector<column> chunks;
            std::vector<std::string> expected;
            std::set<std::string> distinct;
            for (int k = 0; k < 4; ++k) {  // slices of the values, in this or in other memory
                auto const begin = maker.below(values.length()), length = 1 + maker.below(values.length() - begin);
                auto const part = values.slice(begin, length);
                auto const dictionary = maker.below(2) == 0 ? part : ferry::compact(part.view());
                auto& numbers = indices.emplace_back();
                for (std::int64_t i = maker.below(6); i > 0; --i)
                    numbers.push_back(static_cast<std::int16_t>(maker.below(length)));
                column_buffer const items[] = {{}, {numbers.data(), static_cast<std::int64_t>(2 * numbers.size())}};
                parts_of parts;
                auto const below = parts.make(dictionary);
                chunks.push_back(ferry::make_column({.format = "s",
                                                     .length = static_cast<std::int64_t>(numbers.size()),
                                                     .buffers = items,
                                                     .dictionary = &below},
                                                    std::make_shared<column>(dictionary)));
                for (auto const& text : texts(chunks.back().view())) expected.push_back(text);
                for (auto const& text : texts(dictionary.view())) distinct.insert(text);
            }
            auto const joined = ferry::concat(chunks);
            REQUIRE(texts(joined.view()) == expected);
            auto const made = joined.dictionary();
            CHECK(made.length() >= static_cast<std::int64_t>(distinct.size()));
            bool const is_one = made.length() == chunks[0].dictionary().length();  // perhaps of equal dictionaries
            CHECK((is_one || made.length() == static_cast<std::int64_t>(distinct.size())));
        }
}

TEST_CASE("dictionaries whose values are large without memory are refused, not expanded") {
    std::int8_t const index = 0;
    column_buffer const indices[] = {{}, {&index, 1}};
    auto const of = [&](ferry::column_parts const& dictionary) {
        return ferry::make_column({.format = "c", .length = 1, .buffers = indices, .dictionary = &dictionary}, nullptr);
    };
    column const nulls[] = {of({.format = "n", .length = std::int64_t{1} << 62}), of({.format = "n", .length = 1})};
    fails(errc::overflow, [&] { static_cast<void>(ferry::concat(nulls)); }, {"too long to be merged"});
    std::int32_t starts[16]{}, sizes[16], other = 1;
    std::ranges::fill(sizes, 16);
    column_buffer const views[] = {{}, {starts, 64}, {sizes, 64}}, few[] = {{}, {starts, 64}, {&other, 4}};
    std::vector<ferry::column_parts> levels(20);
    levels[0] = {.format = "n", .name = "item", .length = 16};
    for (std::size_t k = 1; k < levels.size(); ++k)
        levels[k] = {.format = "+vl", .name = "item", .length = 16, .buffers = views, .children = {&levels[k - 1], 1}};
    auto small = levels.back();
    small.length = 1;
    small.buffers = few;
    column const lists[] = {of(small), of(levels.back())};
    fails(errc::bad_column, [&] { static_cast<void>(ferry::concat(lists)); },
          {"too large for a value of a dictionary"});
}

TEST_CASE("each dictionary is read once, for any number of chunks") {
    auto const allocations = [](std::int32_t n) {
        std::vector<column> chunks;
        for (std::int32_t i = 0; i < n; ++i) chunks.push_back(dictionary_of({0}, {i % 100 == 0 ? i : 0, 1000}));
        support::allocation_window const window;
        static_cast<void>(ferry::concat(chunks));
        return window.allocations();
    };
    auto const few = allocations(150), many = allocations(300);
    CHECK(few > 150);
    CHECK(many < 2.2 * few);
}

TEST_CASE("every allocation of a join of dictionaries may fail") {
    column const chunks[] = {dictionary_of({0}, {1, 1000}), dictionary_of({1}, {2, 1000})};
    CHECK(support::for_each_failing_allocation([&](int) { static_cast<void>(ferry::concat(chunks)); }) > 5);
}

TEST_CASE("dictionaries with the same bytes differ if they share buffers with other children") {
    std::int32_t const small[] = {1, 2}, large[] = {30, 40};
    std::int8_t const both[] = {0, 1};
    auto const of = [&](std::int32_t const* middle) {
        column_buffer const none[] = {{}}, a[] = {{}, {small, 8}}, b[] = {{}, {middle, 8}}, c[] = {{}, {large, 8}},
                            indices[] = {{}, {both, 2}};
        ferry::column_parts const fields[] = {{.format = "i", .name = "a", .length = 2, .buffers = a},
                                              {.format = "i", .name = "b", .length = 2, .buffers = b},
                                              {.format = "i", .name = "c", .length = 2, .buffers = c}};
        ferry::column_parts const rows{.format = "+s", .length = 2, .buffers = none, .children = fields};
        return ferry::make_column({.format = "c", .length = 2, .buffers = indices, .dictionary = &rows}, nullptr);
    };
    column const chunks[] = {of(small), of(large)};
    auto const joined = ferry::concat(chunks);
    auto const rows = joined.values<column_view>();
    CHECK(rows[0]->field("b").values<std::int32_t>()[0] == 1);
    CHECK(rows[2]->field("b").values<std::int32_t>()[0] == 30);
}

TEST_CASE("children that share their buffers share them in the arena") {
    auto const x = int32s(std::vector<std::int32_t>(1000, 7));
    column_buffer const none[] = {{}};
    column_buffer const shared[] = {x.view().buffers()[0], x.view().buffers()[1]};
    ferry::column_parts const children[] = {{.format = "i", .name = "a", .length = 1000, .buffers = shared},
                                            {.format = "i", .name = "b", .length = 1000, .buffers = shared}};
    auto const c = ferry::compact(
        ferry::make_column({.format = "+s", .length = 1000, .buffers = none, .children = children}, x.owner()));
    CHECK(c.view().child("a").buffers()[1].data == c.view().child("b").buffers()[1].data);
    CHECK(c.view().node().arena.size() == 4032);
}

TEST_CASE("invalid offsets are an error, and no access beyond the buffers") {
    char const text[] = "abc";
    column_buffer const none{};
    auto const strings = [&](std::vector<std::int32_t> const& offsets) {
        column_buffer const buffers[] = {
            none, {offsets.data(), static_cast<std::int64_t>(4 * offsets.size())}, {text, 3}};
        return ferry::make_column(
            {.format = "u", .name = "s", .length = static_cast<std::int64_t>(offsets.size()) - 1, .buffers = buffers},
            nullptr);
    };
    auto const refused = [&](std::vector<std::int32_t> const& offsets, char const* what) {
        fails(errc::bad_column, [&] { static_cast<void>(ferry::compact(strings(offsets))); }, {"s: ", what});
    };
    refused({0, 4}, "from 0 to 4, expected 0 to 3");
    refused({-1, 3}, "from -1 to 3");
    refused({2, 1}, "from 2 to 1, expected ascending offsets from 0");
    refused({0, 1 << 30, 3}, "decrease");
    refused({0, -5, 3}, "decrease");
    std::int32_t const ends[] = {0, 6};
    auto const five = int32s({1, 2, 3, 4, 5});
    column_buffer const list[] = {none, {ends, 8}};
    column_buffer const items[] = {none, five.view().buffers()[1]};
    ferry::column_parts const item{.format = "i", .name = "x", .length = 5, .buffers = items};
    fails(errc::bad_column,
          [&] {
              static_cast<void>(ferry::compact(ferry::make_column(
                  {.format = "+l", .name = "l", .length = 1, .buffers = list, .children = {&item, 1}}, nullptr)));
          },
          {"l: its offsets go from 0 to 6, expected 0 to 5"});
    std::int32_t const start[] = {3}, size[] = {3};
    column_buffer const list_view[] = {none, {start, 4}, {size, 4}};
    fails(errc::bad_column,
          [&] {
              static_cast<void>(ferry::compact(ferry::make_column(
                  {.format = "+vl", .length = 1, .buffers = list_view, .children = {&item, 1}}, nullptr)));
          },
          {"3 values from 3 on"});
    unsigned char const ids[] = {0, 5};
    std::int32_t const starts[] = {0, 0}, far[] = {5, 0};
    column_buffer const union_[] = {{ids, 2}, {starts, 8}}, beyond[] = {{ids, 2}, {far, 8}};
    fails(errc::bad_column,
          [&] {
              static_cast<void>(ferry::compact(ferry::make_column(
                  {.format = "+ud:0", .length = 2, .buffers = union_, .children = {&item, 1}}, nullptr)));
          },
          {"type id 5"});
    fails(errc::bad_column,
          [&] {
              static_cast<void>(ferry::compact(ferry::make_column(
                  {.format = "+ud:0", .length = 1, .buffers = beyond, .children = {&item, 1}}, nullptr)));
          },
          {"item 5 of child 0"});
    std::int32_t const view[] = {13, 0, 1, 0}, long_view[] = {13, 0, 0, 1};
    std::int64_t const lengths[] = {13};
    column_buffer const text_view[] = {none, {view, 16}, {"aaaaaaaaaaaaa", -1}, {lengths, 8}},
                        reaching[] = {none, {long_view, 16}, {"aaaaaaaaaaaaa", -1}, {lengths, 8}};
    fails(errc::bad_column,
          [&] {
              static_cast<void>(
                  ferry::compact(ferry::make_column({.format = "vu", .length = 1, .buffers = text_view}, nullptr)));
          },
          {"buffer 1, but the number of buffers is 1"});
    fails(errc::bad_column,
          [&] {
              static_cast<void>(
                  ferry::compact(ferry::make_column({.format = "vu", .length = 1, .buffers = reaching}, nullptr)));
          },
          {"byte 14", "has 13 bytes"});
    for (auto const& runs : {std::vector<std::int32_t>{2, 2, 3}, {0, 1, 3}, {3, 2, 1}, {1, 2, 2}, {-1, -2, -3}}) {
        auto const run_ends = int32s(runs);
        column_buffer const of_ends[] = {none, run_ends.view().buffers()[1]};
        ferry::column_parts const children[] = {{.format = "i", .length = 3, .buffers = of_ends},
                                                {.format = "i", .length = 5, .buffers = items}};
        auto const encoded = ferry::make_column({.format = "+r", .length = 3, .children = children}, nullptr);
        try {
            static_cast<void>(ferry::compact(encoded));
            CHECK((runs[0] == 3 || runs[0] == 0));  // a run without items is omitted
        } catch (ferry::error const& e) {
            CHECK(e.code() == errc::bad_column);
        }
    }
}

TEST_CASE("offsets that another process changes after their check are an error, and no access beyond the buffers") {
    /// Memory whose allocation, which lies between the two reads, writes into the source.
    struct writing_space : ferry::host_space {
        std::int32_t *at, value;
        [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = ferry::default_alignment) const {
            *at = value;
            return ferry::host_space::allocate(bytes, alignment);
        }
    };
    unsigned char const second[] = {0b10};
    std::vector<char> const text(300, 'x');
    for (auto const& [i, value] : {std::pair{0, -100'000}, {0, 99}, {1, 99}, {1, 301}, {2, 299}, {2, 1 << 30}}) {
        std::int32_t offsets[] = {100, 200, 300};
        column_buffer const buffers[] = {{second, 1}, {offsets, 12}, {text.data(), 300}};
        auto const c = ferry::make_column({.format = "u", .length = 2, .buffers = buffers}, nullptr);
        fails(errc::bad_column, [&] { static_cast<void>(ferry::compact(c, writing_space{{}, &offsets[i], value})); },
              {"decrease"});
    }
}

TEST_CASE("a space that the host cannot write is refused before memory is allocated") {
    struct device_space {
        [[nodiscard]] ferry::device device() const { return {ferry::device_type::cuda, 0}; }
        [[nodiscard]] void* allocate(std::size_t, std::size_t = ferry::default_alignment) const {
            throw std::bad_alloc{};
        }
        void deallocate(void*, std::size_t, std::size_t = ferry::default_alignment) const noexcept {}
    };
    auto const c = int32s({1, 2});
    fails(errc::device, [&] { static_cast<void>(ferry::compact(c, device_space{})); }, {"memory on cuda", "use to()"});
}

TEST_CASE("chunks too large for offsets of 32 bits are refused before memory is allocated") {
    std::int32_t const offsets[] = {0, 1 << 30};
    column_buffer const buffers[] = {{}, {offsets, 8}, {offsets, -1}};  // never read
    std::vector<column> const chunks(
        3, ferry::make_column({.format = "u", .name = "s", .length = 1, .buffers = buffers}, nullptr));
    fails(errc::overflow, [&] { static_cast<void>(ferry::concat(chunks)); }, {"s: ", "2147483647"});
}

TEST_CASE("an allocation that fails leaves nothing behind") {
    column_maker maker{7};
    auto const c = maker.make("+s", 30, 3);
    CHECK(support::for_each_failing_allocation([&](int) { static_cast<void>(ferry::compact(c.view())); }) > 3);
    column const chunks[] = {dictionary_of({0, 1}, {5, 6}), dictionary_of({2, 0}, {7, 8, 9})};
    CHECK(support::for_each_failing_allocation([&](int) { static_cast<void>(ferry::concat(chunks)); }) > 3);
}
