// Columns: ownership, slices, and errors for inconsistent structures.
#include <ferry/column.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

using ferry::column;
using ferry::column_buffer;
using ferry::column_parts;
using ferry::errc;
using support::both_fail;

namespace {

std::int32_t const numbers[] = {1, 2, 3, 4, 5};
unsigned char const validity[] = {0b10110};
column_buffer const five[] = {{validity, 1}, {numbers, sizeof numbers}};

void refused(column_parts const& parts, char const* why) {
    both_fail(
        errc::bad_column, [&] { static_cast<void>(ferry::make_column(parts, nullptr)); },
        [&] { return ferry::try_make_column(parts, nullptr); }, {why});
}

}  // namespace

TEST_CASE("a column keeps its owner until the last column, slice or child is destroyed") {
    auto owner = std::make_shared<int>(1);
    std::weak_ptr<int> const alive = owner;
    column_parts const child{.format = "i", .name = "x", .length = 5, .buffers = five};
    column_buffer const none[] = {{}};
    auto c = ferry::make_column({.format = "+s", .length = 4, .offset = 1, .buffers = none, .children = {&child, 1}},
                                std::move(owner));
    CHECK(c.child("x").length() == 5);
    auto const x = c.field("x");
    CHECK(x.offset() == 1);
    CHECK(x.length() == 4);
    CHECK(x.null_count() == 1);
    auto slice = x.slice(2, 2);
    c = column{};
    CHECK(slice.null_count() == 1);
    CHECK(!alive.expired());
    slice = column{};
    CHECK(!alive.expired());  // x
}

TEST_CASE("a moved-from column is empty, and gives no access to the memory") {
    auto c = ferry::make_column({.format = "i", .name = "x", .length = 5, .buffers = five}, nullptr);
    auto d = std::move(c);
    CHECK(c.length() == 0);
    CHECK(c.format() == "n");
    c = std::move(d);
    CHECK(d.length() == 0);
    CHECK(c.name() == "x");
    auto& self = c;
    c = std::move(self);
    CHECK(c.length() == 5);
}

TEST_CASE("an inconsistent structure is refused with the path of the node") {
    column_buffer const none[] = {{}};
    column_parts const item{.format = "i", .name = "price", .length = 5, .buffers = five};
    column_parts const row{.format = "+s", .name = "item", .length = 6, .buffers = none, .children = {&item, 1}};
    std::int32_t const ends[] = {0, 6};
    column_buffer const list[] = {{}, {ends, sizeof ends}};
    column_parts const lists{.format = "+l", .name = "items", .length = 1, .buffers = list, .children = {&row, 1}};
    refused({.format = "+s", .name = "orders", .length = 1, .buffers = none, .children = {&lists, 1}},
            "orders.items[].price: it has 5 items, and its parent needs 6");
    column_buffer const small[] = {{validity, 1}, {numbers, 20}};
    refused({.format = "i", .length = 6, .buffers = small}, "column: data buffer holds 20 bytes, needs 24");
    refused({.format = "i", .length = 9, .buffers = small}, "validity buffer holds 1 bytes, needs 2");
    refused({.format = "q", .length = 9, .buffers = small}, "`q`");
}

TEST_CASE("formats and names that contain NUL are refused, since a schema would end there") {
    using namespace std::string_view_literals;
    refused({.format = "i"sv, .name = "pri\0ce"sv, .length = 5, .buffers = five}, "byte 3 of its name is NUL");
    refused({.format = "tsu:UTC\0evil"sv, .name = "x"sv, .length = 5, .buffers = five},
            "x: byte 7 of its format is NUL");
}

TEST_CASE("invalid metadata is refused, since a consumer of its schema could not find its end") {
    using namespace std::string_view_literals;
    for (auto const bytes : {"abc"sv, "\1\0\0\0"sv, "\1\0\0\0\1\0\0\0a\x7f\0\0\0b"sv, "\xff\xff\xff\xff"sv}) {
        column_parts const item{.format = "i", .name = "x", .length = 5, .buffers = five, .metadata = bytes};
        column_buffer const none[] = {{}};
        refused({.format = "+s", .name = "t", .length = 5, .buffers = none, .children = {&item, 1}},
                "t.x: its metadata of");
    }
}
