// Columns exported through Arrow's C data interface and imported again, without copies; structs may be released
// separately.
#include <ferry/arrow.hpp>

#include <support/allocation_failure.hpp>
#include <support/arrow_producer.hpp>
#include <support/fails.hpp>
#include <support/random_columns.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::column_parts;
using ferry::column_view;
using ferry::errc;
using support::allocation_window;
using support::fails;

namespace {

bool same(column_view a, column_view b);

/// The first buffer of a struct, sparse union or fixed-size list without the items before the slice.
bool same_begin(column_view a, column_view b) {
    auto const* const data = static_cast<unsigned char const*>(b.buffers()[0].data);
    if (b.offset() == 0 || b.length() == 0 || b.type().id == ferry::type_id::sparse_union)
        return b.length() == 0 || a.buffers()[0].data == data + b.offset();
    if (b.is_without_nulls()) return a.buffers()[0].data == nullptr;
    bool is_same = b.offset() % 8 != 0 || a.buffers()[0].data == data + b.offset() / 8;
    for (std::int64_t i = 0; i < b.length(); ++i) is_same = is_same && a.validity()[i] == b.validity()[i];
    return is_same;
}

/// Structs, sparse unions and fixed-size lists have their slice in their children; all other nodes are the same, on the
/// same memory.
bool same(column_view a, column_view b) {
    auto const id = b.type().id;
    auto const each = id == ferry::type_id::fixed_size_list ? b.type().width : 1;
    bool const is_moved =
        id == ferry::type_id::structure || id == ferry::type_id::sparse_union || id == ferry::type_id::fixed_size_list;
    bool is_same = a.format() == b.format() && a.type() == b.type() && a.name() == b.name() &&
                   a.metadata() == b.metadata() && a.flags() == b.flags() && a.length() == b.length() &&
                   (b.length() == 0 || a.offset() == (is_moved ? 0 : b.offset())) &&
                   a.known_null_count() == b.known_null_count() && a.child_count() == b.child_count() &&
                   a.has_dictionary() == b.has_dictionary() && a.buffers().size() == b.buffers().size();
    if (is_same && is_moved) is_same = same_begin(a, b);
    for (std::size_t i = 0; is_same && !is_moved && i < a.buffers().size(); ++i)
        is_same = a.buffers()[i].data == b.buffers()[i].data;
    for (int i = 0; is_same && i < a.child_count(); ++i)
        is_same = same(a.child(i), is_moved ? b.child(i).slice(each * b.offset(), each * b.length()) : b.child(i));
    return is_same && (!a.has_dictionary() || same(a.dictionary(), b.dictionary()));
}

/// Exports and imports.
column round_trip(column const& c) {
    ArrowArray array{};
    ArrowSchema schema{};
    ferry::to_arrow(c, &array);
    ferry::to_arrow_schema(c, &schema);
    return ferry::from_arrow(&array, &schema);
}

/// A struct of three columns, of which one is a list and one has a dictionary.
struct table {
    std::int32_t const numbers[6] = {0, 1, 2, 3, 4, 5};
    column_buffer const data[2] = {{}, {numbers, sizeof numbers}}, none[1]{};
    column_parts const words{.format = "i", .length = 6, .buffers = data};
    column_parts const children[3] = {
        {.format = "i", .name = "a", .length = 6, .buffers = data},
        {.format = "+l", .name = "b", .length = 5, .buffers = data, .children = {&words, 1}},
        {.format = "i", .name = "c", .length = 6, .buffers = data, .dictionary = &words}};
    std::shared_ptr<int> owner = std::make_shared<int>(1);
    std::weak_ptr<int> alive = owner;
    [[nodiscard]] column make() {
        return ferry::make_column({.format = "+s", .name = "t", .length = 5, .buffers = none, .children = children},
                                  std::move(owner));
    }
};

}  // namespace

TEST_CASE("a column is exported and imported with the same buffers") {
    std::int32_t const numbers[] = {1, 2, 3, 4, 5};
    unsigned char const validity[] = {0b10110};
    column_buffer const five[] = {{validity, 1}, {numbers, sizeof numbers}};
    auto owner = std::make_shared<int>(1);
    std::weak_ptr<int> const alive = owner;
    auto c = ferry::make_column({.format = "i", .name = "n", .length = 5, .buffers = five}, std::move(owner));
    ArrowArray array{};
    ArrowSchema schema{};
    ferry::to_arrow(c.slice(1, 3), &array);
    ferry::to_arrow_schema(c, &schema);
    c = column{};
    CHECK(!alive.expired());
    CHECK(array.offset == 1);
    CHECK(array.length == 3);
    CHECK(array.null_count == -1);
    auto back = ferry::from_arrow(&array, &schema);
    CHECK(!array.release);
    CHECK(!schema.release);
    CHECK(back.null_count() == 1);
    CHECK(back.name() == "n");
    CHECK(back.view().buffers()[1].data == numbers);
    back = column{};
    CHECK(alive.expired());
}

TEST_CASE("every type, nested and sliced, is exported and imported in its memory, in two allocations") {
    support::every_type all;
    int count = 0;
    for (std::int64_t const offset : {0, 5}) {
        all.for_each(8, offset, [&](column_parts const& parts) {
            auto const whole = ferry::make_column(parts, nullptr);
            for (auto const& c : {whole, whole.slice(1, 2), whole.slice(whole.length(), 0)}) {
                ArrowArray array{};
                ArrowSchema schema{};
                {
                    allocation_window const window;
                    ferry::to_arrow(c, &array);
                    ferry::to_arrow_schema(c, &schema);
                    CHECK(window.allocations() == 2);
                }
                CHECK(same(ferry::from_arrow(&array, &schema), c));
                ++count;
            }
        });
    }
    CHECK(count > 2000);
}

TEST_CASE("the slice of a struct is exported in its children, with offset 0") {
    std::vector<std::int32_t> numbers(40);
    std::iota(numbers.begin(), numbers.end(), 0);
    unsigned char const bits[] = {0b1011'0101, 0b1110'1110, 0b0101'1011, 0xff, 0};
    column_buffer const items[] = {{}, {numbers.data(), 160}}, some[] = {{bits, 5}}, none[] = {{}};
    auto const table = [&](std::span<column_buffer const> valid) {
        column_parts const leaf{.format = "i", .name = "x", .length = 40, .buffers = items};
        column_parts const inner{
            .format = "+s", .name = "s", .length = 32, .offset = 4, .buffers = valid, .children = {&leaf, 1}};
        return ferry::make_column(
            {.format = "+s", .length = 28, .offset = 2, .buffers = valid, .children = {&inner, 1}}, nullptr);
    };
    for (std::int64_t begin = 0; begin < 20; ++begin)
        for (bool const has_nulls : {true, false}) {
            auto const c = table(has_nulls ? some : none).slice(begin, 8);
            auto const root = round_trip(c), inner = root.child(0), leaf = inner.child(0), field = c.field(0);
            CHECK(root.offset() == 0);
            CHECK(inner.offset() == 0);
            CHECK(leaf.offset() == 6 + begin);
            for (auto const& part : {root, inner, leaf}) CHECK(part.length() == 8);
            CHECK(leaf.view().buffers()[1].data == numbers.data());
            for (std::int64_t i = 0; i < 8; ++i) {
                CHECK(root.view().validity()[i] == c.view().validity()[i]);
                CHECK(inner.view().validity()[i] == field.view().validity()[i]);
            }
            auto const* const valid = static_cast<unsigned char const*>(root.view().buffers()[0].data);
            if (!has_nulls) CHECK(valid == nullptr);
            else if ((begin + 2) % 8 == 0) CHECK(valid == bits + (begin + 2) / 8);
            else CHECK((valid < bits || valid >= bits + sizeof bits));  // a copy, in the memory of the array
        }
    CHECK(round_trip(table(some)).child(0).length() == 28);  // of 32
}

TEST_CASE("a validity without nulls is not exported with the slice of a struct") {
    unsigned char const bits[] = {0xff, 0xff};
    column_buffer const valid[] = {{bits, 2}};
    auto const c =
        ferry::make_column({.format = "+s", .length = 16, .null_count = 0, .buffers = valid}, nullptr).slice(3, 5);
    auto const made = round_trip(c);
    CHECK(made.view().buffers()[0].data == nullptr);
    CHECK(made.null_count() == 0);
}

TEST_CASE("slices of random columns keep their values through an export, and only validity is copied") {
    unsigned seed = 7'000;
    std::vector<std::string> formats(std::begin(support::column_maker::leaves),
                                     std::end(support::column_maker::leaves));
    for (int k = 0; k < 6; ++k)
        formats.insert(formats.end(), std::begin(support::column_maker::nested),
                       std::end(support::column_maker::nested));
    for (auto const& format : formats)
        for (int turn = 0; turn < 12; ++turn) {
            support::column_maker maker{++seed};
            INFO(format, " seed ", seed);
            auto const whole = maker.make(format, maker.below(60), 4);
            auto const begin = maker.below(whole.length() + 1);
            auto const c = whole.slice(begin, maker.below(whole.length() - begin + 1));
            auto const made = round_trip(c);
            REQUIRE(support::shown(made.view()) == support::shown(c.view()));
            CHECK(same(made, c));
        }
}

TEST_CASE("a struct is written only on success") {
    table t;
    auto const c = t.make();
    auto const failures = support::for_each_failing_allocation([&](int) {
        ArrowArray array{};
        ArrowSchema schema{};
        array.length = schema.flags = 7;
        ArrowArrayStream stream{};
        try {
            ferry::to_arrow(c, &array);
            array.release(&array);
            array.length = 7;
            ferry::to_arrow_schema(c, &schema);
            schema.release(&schema);
            schema.flags = 7;
            ferry::to_arrow(ferry::chunked{{c, c}, c}, &stream);
            stream.release(&stream);
        } catch (std::bad_alloc const&) {
            if (array.length != 7 || array.release || schema.flags != 7 || schema.release || stream.release)
                throw std::runtime_error{"written"};
            throw;
        }
    });
    CHECK(failures >= 4);
    fails(errc::argument, [&] { ferry::to_arrow(c, static_cast<ArrowArray*>(nullptr)); },
          {"ArrowArray to write to is null"});
    fails(errc::argument, [&] { ferry::to_arrow_schema(c, nullptr); }, {"ArrowSchema to write to is null"});
}

TEST_CASE("children may be moved out and released in any order: the last of them frees the memory") {
    std::mt19937 random{42};
    for (int round = 0; round < 200; ++round) {
        allocation_window const window;
        table t;
        ArrowArray root{};
        ArrowSchema schema{};
        {
            auto const c = t.make();
            ferry::to_arrow(c, &root);
            ferry::to_arrow_schema(c, &schema);
        }
        std::vector<ArrowArray> arrays;
        std::vector<ArrowSchema> schemas;
        for (int i = 0; i < 3; ++i) {
            if (random() % 2 == 0) arrays.push_back(std::exchange(*root.children[i], ArrowArray{}));
            if (random() % 2 == 0) schemas.push_back(std::exchange(*schema.children[i], ArrowSchema{}));
            // In place.
            if (random() % 4 == 0 && root.children[i]->release) root.children[i]->release(root.children[i]);
        }
        arrays.push_back(root);
        schemas.push_back(schema);
        std::shuffle(arrays.begin(), arrays.end(), random);
        std::shuffle(schemas.begin(), schemas.end(), random);
        for (std::size_t i = 0; i < arrays.size(); ++i) {
            if (t.alive.expired()) FAIL("released before the last of them");
            arrays[i].release(&arrays[i]);
            if (arrays[i].release) FAIL("not marked");
        }
        for (auto& s : schemas) s.release(&s);
        if (!t.alive.expired()) FAIL("still alive");
        arrays = std::vector<ArrowArray>{}, schemas = std::vector<ArrowSchema>{};
        if (window.live() > 1) FAIL("leaked");  // the control block of t.alive
    }
}

TEST_CASE("children may be released on different threads") {
    for (int round = 0; round < 100; ++round) {
        table t;
        ArrowArray root{};
        ferry::to_arrow(t.make(), &root);
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; ++i)
            threads.emplace_back(
                [child = std::exchange(*root.children[i], ArrowArray{})]() mutable { child.release(&child); });
        root.release(&root);
        for (auto& thread : threads) thread.join();
        CHECK(t.alive.expired());
    }
}

TEST_CASE(
    "a moved child is a complete column, and a foreign struct in place of a child is released by its own callback") {
    table t;
    ArrowArray root{};
    ArrowSchema schema{};
    {
        auto const c = t.make();
        ferry::to_arrow(c, &root);
        ferry::to_arrow_schema(c, &schema);
    }
    ArrowArray child = std::exchange(*root.children[1], ArrowArray{});
    ArrowSchema type = std::exchange(*schema.children[1], ArrowSchema{});
    static int foreign = 0;
    root.children[1]->release = [](ArrowArray* a) { ++foreign, a->release = nullptr; };
    root.release(&root);
    schema.release(&schema);
    CHECK(foreign == 1);
    {
        auto const c = ferry::from_arrow(&child, &type);
        CHECK(c.name() == "b");
        CHECK(c.child(0).length() == 6);
        CHECK(!t.alive.expired());
    }
    CHECK(t.alive.expired());
}

TEST_CASE("a column without items has the one offset that consumers read, and no lengths of data") {
    for (auto const* format : {"u", "Z", "+l", "+L", "+m"}) {
        column_buffer const null[3]{};
        column_parts const pair[2] = {{.format = "i", .length = 0, .buffers = {null, 2}},
                                      {.format = "i", .length = 0, .buffers = {null, 2}}};
        bool const is_map = std::string_view{format} == "+m";
        column_parts const child{.format = is_map ? "+s" : "i",
                                 .length = 0,
                                 .buffers = {null, is_map ? std::size_t{1} : 2},
                                 .children = {pair, is_map ? std::size_t{2} : 0}};
        bool const is_nested = *format == '+';
        auto const c = ferry::make_column({.format = format,
                                           .length = 0,
                                           .offset = 3,
                                           .buffers = {null, is_nested ? std::size_t{2} : 3},
                                           .children = {&child, is_nested ? std::size_t{1} : 0}},
                                          nullptr);
        ArrowArray array{};
        ferry::to_arrow(c, &array);
        REQUIRE(array.buffers[1] != nullptr);
        CHECK(array.offset == 0);  // there is one offset, and it is 0
        CHECK(*static_cast<std::int64_t const*>(array.buffers[1]) == 0);
        array.release(&array);
    }
    column_buffer const null[3]{};
    ArrowArray array{};
    ferry::to_arrow(ferry::make_column({.format = "vu", .length = 0, .buffers = null}, nullptr), &array);
    CHECK(array.n_buffers == 3);
    CHECK(array.buffers[2] != nullptr);
    array.release(&array);
}

TEST_CASE("an empty slice is exported with the offset at which it begins, because those in front may be invalid") {
    std::int32_t const narrow[] = {-7, -7, 0, 1, 2};
    std::int64_t const wide[] = {-7, -7, 0, 1, 2};
    unsigned char const bytes[8]{};
    column_buffer const numbers[] = {{}, {bytes, 8}}, none[1]{}, ids[] = {{bytes, 8}};
    column_parts const two[] = {{.format = "i", .length = 2, .buffers = numbers},
                                {.format = "i", .length = 2, .buffers = numbers}};
    column_parts const entries{.format = "+s", .length = 2, .buffers = none, .children = two};
    for (std::string_view const format : {"u", "U", "z", "Z", "+l", "+L", "+m"}) {
        bool const is_wide = format == "U" || format == "Z" || format == "+L", is_nested = format[0] == '+';
        column_buffer const buffers[] = {{}, is_wide ? column_buffer{wide, 40} : column_buffer{narrow, 20}, {bytes, 2}};
        column_parts const child{.format = format,
                                 .length = 2,
                                 .offset = 2,
                                 .buffers = {buffers, is_nested ? std::size_t{2} : 3},
                                 .children = {format == "+m" ? &entries : two, is_nested ? std::size_t{1} : 0}};
        for (auto const* parent : {"+s", "+us:0", "+w:1"}) {
            column_parts const middle{
                .format = parent, .length = 2, .buffers = parent[1] == 'u' ? ids : none, .children = {&child, 1}};
            auto const c =
                ferry::make_column({.format = "+s", .length = 2, .buffers = none, .children = {&middle, 1}}, nullptr);
            for (std::int64_t const begin : {0, 1, 2}) {
                ArrowArray array{};
                ferry::to_arrow(c.slice(begin, 0), &array);
                auto const& inner = *array.children[0];
                auto const& leaf = *inner.children[0];
                CHECK(array.offset + inner.offset + inner.length + leaf.length == 0);
                CHECK(leaf.offset == 2 + begin);
                CHECK(leaf.buffers[1] == buffers[1].data);
                array.release(&array);
            }
        }
    }
}

TEST_CASE("an exported null count is the known one: that of a slice only if the column has no nulls") {
    std::int32_t const numbers[5]{};
    unsigned char const validity[] = {0b10110};
    column_buffer const nullable[] = {{validity, 1}, {numbers, sizeof numbers}},
                        full[] = {{}, {numbers, sizeof numbers}};
    auto const count = [](column const& c) {
        ArrowArray array{};
        ferry::to_arrow(c, &array);
        auto const n = array.null_count;
        array.release(&array);
        return n;
    };
    auto const c = ferry::make_column({.format = "i", .length = 5, .null_count = 2, .buffers = nullable}, nullptr);
    CHECK(count(c) == 2);
    CHECK(count(c.slice(1, 3)) == -1);
    CHECK(count(c.slice(1, 0)) == 0);
    CHECK(count(ferry::make_column({.format = "i", .length = 5, .null_count = 0, .buffers = nullable}, nullptr)
                    .slice(1, 3)) == 0);
    CHECK(count(ferry::make_column({.format = "i", .length = 5, .buffers = full}, nullptr).slice(1, 3)) == 0);
    CHECK(count(ferry::make_column({.format = "n", .length = 5}, nullptr).slice(1, 3)) == 3);
}

TEST_CASE("memory that the host cannot read is not exported as an ArrowArray") {
    column_buffer const some[] = {{}, {&some, 20}};
    auto const c =
        ferry::make_column({.format = "i", .length = 5, .buffers = some}, nullptr, {ferry::device_type::cuda, 1});
    ArrowArray array{};
    fails(errc::not_accessible, [&] { ferry::to_arrow(c, &array); }, {"cuda:1", "ArrowDeviceArray"});
    CHECK(!array.release);
}
