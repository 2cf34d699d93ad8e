// Imports of foreign arrays: ownership, and checks before it is taken.
#include <ferry/arrow.hpp>

#include <support/allocation_failure.hpp>
#include <support/arrow_producer.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

using ferry::column;
using ferry::column_buffer;
using ferry::column_parts;
using ferry::errc;
using support::arrow_producer;
using support::fails;

namespace {

std::int32_t const numbers[] = {1, 2, 3, 4, 5};
unsigned char const validity[] = {0b10110};
column_buffer const five[] = {{validity, 1}, {numbers, sizeof numbers}};
column_buffer const no_validity[] = {{}};
std::int32_t const ends[] = {0, 2, 5};
column_buffer const lists[] = {{}, {ends, sizeof ends}};
std::int64_t const lengths[] = {7, 9};
column_buffer const views[] = {{}, {numbers, 16}, {numbers, 7}, {numbers, 9}, {lengths, 16}};

/// `orders`, a list of structs of a price, a kind from a dictionary and a note.
struct orders {
    column_parts words{.format = "i", .name = "", .length = 5, .buffers = five};
    column_parts fields[3] = {{.format = "i", .name = "price", .length = 5, .buffers = five},
                              {.format = "i", .name = "kind", .length = 5, .buffers = five, .dictionary = &words},
                              {.format = "vu", .name = "note", .length = 1, .buffers = views}};
    column_parts item{.format = "+s", .name = "item", .length = 1, .buffers = no_validity, .children = fields};
    column_parts root{
        .format = "+l", .name = "orders", .length = 2, .null_count = 0, .buffers = lists, .children = {&item, 1}};
};

ArrowArray& price(arrow_producer& p) { return *p.array.children[0]->children[0]; }
ArrowArray& note(arrow_producer& p) { return *p.array.children[0]->children[2]; }
ArrowSchema& price_schema(arrow_producer& p) { return *p.schema.children[0]->children[0]; }

/// The contents of a released struct.
char const* const gone = reinterpret_cast<char const*>(std::uintptr_t{8});

struct spoilt {
    std::function<void(arrow_producer&)> spoil;
    char const* text;
};

}  // namespace

TEST_CASE("an import takes over both structs, and releases the array with the last that needs it") {
    orders const o;
    arrow_producer p{o.root};
    column child;
    {
        auto const c = ferry::from_arrow(&p.array, &p.schema);
        CHECK(p.is_taken());
        auto const price = c.view().child(0).child("price");
        CHECK(price.buffers()[1].data == numbers);
        CHECK(price.buffers()[1].bytes == -1);
        child = c.child(0).child("note");
    }
    CHECK(p.arrays_released == 0);
    CHECK(child.view().buffers()[2].bytes == 7);  // view types have the lengths of their data
    CHECK(child.view().buffers()[3].bytes == 9);
    CHECK(child.view().buffers()[4].bytes == 16);
    child = {};
    CHECK(p.arrays_released == 1);
    CHECK(p.schemas_released == 1);
}

TEST_CASE("inconsistent structs are refused, and a refused import leaves both unchanged") {
    arrow_producer* self = nullptr;
    spoilt const cases[] = {
        {[](auto& p) { p.array.release = nullptr; }, "orders: the array was released"},
        {[](auto& p) { p.schema.release = nullptr, p.schema.name = gone; }, "column: the schema was released"},
        {[](auto& p) { price(p).release = nullptr; }, "orders[].price: the array was released"},
        {[](auto& p) { price_schema(p).release = nullptr, price_schema(p).name = gone; },
         "orders[].: the schema was released"},
        {[](auto& p) { p.schema.format = nullptr; }, "orders: the schema's format is null"},
        {[](auto& p) { price_schema(p).format = "q"; }, "price: the format `q` is not a type of Arrow"},
        {[](auto& p) { price_schema(p).format = "tsq:\n"; }, "price: the format `tsq:?` is not a type of Arrow"},
        {[](auto& p) { p.array.n_children = -1; }, "orders: the array has -1 children, expected 1"},
        {[](auto& p) { p.schema.n_children = -1; }, "orders: the schema has -1 children"},
        {[](auto& p) { p.schema.n_children = p.array.n_children = INT64_MAX; }, "more than 4194304 nodes"},
        {[](auto& p) { p.array.children[0]->n_children = 2; }, "the array has 2 children, expected 3"},
        {[](auto& p) { p.array.children = nullptr; }, "orders: the array's children are null"},
        {[](auto& p) { p.schema.children = nullptr; }, "orders: the schema's children are null"},
        {[](auto& p) { p.array.children[0]->children[0] = nullptr; }, "price: the array is null"},
        {[](auto& p) { p.schema.children[0]->children[1] = nullptr; }, "child 1 of its schema is null"},
        {[](auto& p) { price(p).n_buffers = 1; }, "price: the array has 1 buffers, expected 2 for `i`"},
        {[](auto& p) { price(p).n_buffers = -1; }, "price: the array has -1 buffers"},
        {[](auto& p) { price(p).n_buffers = INT64_MAX; }, "price: the array has 9223372036854775807 buffers"},
        {[](auto& p) { note(p).n_buffers = INT64_MAX; }, "buffers"},
        {[](auto& p) { note(p).n_buffers = 2; }, "note: the array has 2 buffers, expected at least 3 for `vu`"},
        {[](auto& p) { price(p).buffers = nullptr; }, "price: the array's buffers are null"},
        {[](auto& p) { note(p).buffers[4] = nullptr; }, "note: the lengths of its 2 data buffers are null"},
        {[](auto& p) { note(p).buffers[3] = nullptr; }, "note: a data buffer of 9 bytes is null"},
        {[](auto& p) { price(p).buffers[1] = nullptr; }, "price: data buffer is null, needs 20 bytes"},
        {[](auto& p) { p.array.children[0]->children[1]->dictionary = nullptr; },
         "kind: the schema has a dictionary, and the array has none"},
        {[](auto& p) { p.schema.children[0]->children[1]->dictionary = nullptr; },
         "kind: the array has a dictionary, and the schema has none"},
        {[](auto& p) { p.schema.children[0]->children[1]->dictionary->format = "+s"; },
         "kind<dictionary>: the array has 2 buffers, expected 1 for `+s`"},
        {[](auto& p) { p.schema.children[0]->children[1]->format = "f"; },
         "kind: the indices of a dictionary are integers, not"},
        {[](auto& p) { price(p).length = -1; }, "price: it has -1 items"},
        {[](auto& p) { price(p).offset = -1; }, "price: its offset is -1"},
        {[](auto& p) { price(p).offset = INT64_MAX; }, "exceeds 63 bits"},
        {[](auto& p) { price(p).length = 0; }, "price: it has 0 items, and its parent needs 1"},
        {[](auto& p) { price(p).null_count = 6; }, "price: its null count is 6, expected -1 to 5"},
        {[](auto& p) { price(p).null_count = -2; }, "price: its null count is -2"},
        {[](auto& p) { price(p).null_count = 1, price(p).buffers[0] = nullptr; },
         "price: its null count is 1, and it has no validity buffer"},
        {[](auto& p) {
             p.schema.name = "a\x1b[31m";
             p.array.offset = -1;
         },
         "a?[31m: its offset is -1"},
        {[](auto& p) {
             p.schema.name = nullptr;
             p.array.offset = -1;
         },
         "column: its offset is -1"},
        {[&](auto& p) {
             p.array.children[0]->children[0] = self->array.children[0];
             p.schema.children[0]->children[0] = self->schema.children[0];
         },
         "deeper than 64 nodes"},
    };
    for (auto const& one : cases) {
        orders const o;
        arrow_producer p{o.root};
        self = &p;
        one.spoil(p);
        auto const array = p.array;
        auto const schema = p.schema;
        fails(errc::bad_column, [&] { static_cast<void>(ferry::from_arrow(&p.array, &p.schema)); }, {one.text});
        CHECK(std::memcmp(&array, &p.array, sizeof array) == 0);
        CHECK(std::memcmp(&schema, &p.schema, sizeof schema) == 0);
        CHECK(p.arrays_released + p.schemas_released + p.children_released == 0);
    }
    orders const o;
    arrow_producer p{o.root};
    fails(errc::argument, [&] { static_cast<void>(ferry::from_arrow(static_cast<ArrowArray*>(nullptr), &p.schema)); },
          {"ArrowArray is null"});
    fails(errc::argument, [&] { static_cast<void>(ferry::from_arrow(&p.array, nullptr)); }, {"ArrowSchema is null"});
    CHECK(p.is_untouched());
}

TEST_CASE("lengths of a view type's data that are negative are refused") {
    std::int64_t const negative[] = {7, -1};
    orders const o;
    arrow_producer p{o.root};
    note(p).buffers[4] = negative;
    fails(errc::bad_column, [&] { static_cast<void>(ferry::from_arrow(&p.array, &p.schema)); },
          {"orders[].note: data buffer 1 has -1 bytes"});
    CHECK(p.is_untouched());
}

TEST_CASE("metadata with a negative number is refused, and empty metadata counts as absent") {
    orders const o;
    arrow_producer p{o.root};
    std::string bad{"\1\0\0\0\xff\xff\xff\xff", 8};
    p.schema.metadata = bad.data();
    fails(errc::bad_column, [&] { static_cast<void>(ferry::from_arrow(&p.array, &p.schema)); }, {"metadata"});
    char const none[4]{};
    p.schema.metadata = none;
    auto const c = ferry::from_arrow(&p.array, &p.schema);
    CHECK(c.view().metadata().empty());
}

TEST_CASE("every allocation of an import may fail, and leaves both structs the caller's") {
    orders const o;
    arrow_producer p{o.root};
    auto const failures = support::for_each_failing_allocation([&](int) {
        try {
            static_cast<void>(ferry::from_arrow(&p.array, &p.schema));
        } catch (std::bad_alloc const&) {
            if (!p.is_untouched()) throw std::runtime_error{"touched"};
            throw;
        }
    });
    CHECK(failures > 0);
    CHECK(p.arrays_released == 1);
    CHECK(p.schemas_released == 1);
}

TEST_CASE("columns without items may lack their buffers, as those of some producers do") {
    for (auto const* format : {"i", "u", "Z", "b", "w:3", "+s"}) {
        column_buffer const null[3]{};
        auto const layout = ferry::layout_of(*ferry::parse_format(format));
        column_parts const parts{.format = format,
                                 .length = 0,
                                 .offset = 3,
                                 .buffers = {null, static_cast<std::size_t>(layout.buffer_count)},
                                 .children = {}};
        arrow_producer p{parts};
        CHECK_NOTHROW(static_cast<void>(ferry::from_arrow(&p.array, &p.schema)));
    }
}

TEST_CASE("a validity buffer of a type without validity, as old producers export it, is ignored if it has no effect") {
    std::int8_t const ids[] = {0, 1, 0};
    std::int32_t const starts[] = {0, 0, 1};
    column_parts const child{.format = "i", .name = "a", .length = 5, .buffers = five}, both[2] = {child, child};
    column_buffer const null_type[] = {{}}, sparse[] = {{}, {ids, 3}}, dense[] = {{}, {ids, 3}, {starts, 12}};
    column_parts cases[] = {{.format = "n", .length = 3, .buffers = null_type},
                            {.format = "+us:0,1", .length = 3, .buffers = sparse, .children = both},
                            {.format = "+ud:0,1", .length = 3, .buffers = dense, .children = both}};
    for (auto const& parts : cases) {
        arrow_producer p{parts};
        auto const c = ferry::from_arrow(&p.array, &p.schema);
        auto const buffers = c.view().buffers();
        CHECK(buffers.size() == parts.buffers.size() - 1);
        for (std::size_t i = 0; i < buffers.size(); ++i) CHECK(buffers[i].data == parts.buffers[i + 1].data);
    }
    arrow_producer p{cases[1]};
    p.array.buffers[0] = validity;
    fails(errc::bad_column, [&] { static_cast<void>(ferry::from_arrow(&p.array, &p.schema)); },
          {"no nulls of their own"});
    p.array.null_count = 0;
    CHECK_NOTHROW(static_cast<void>(ferry::from_arrow(&p.array, &p.schema)));
    column_buffer const two[] = {{}, {}};
    arrow_producer q{{.format = "n", .length = 3, .buffers = two}};
    fails(errc::bad_column, [&] { static_cast<void>(ferry::from_arrow(&q.array, &q.schema)); }, {"2 buffers"});
}

TEST_CASE("a schema is marked as released although its callback does not mark it") {
    orders const o;
    arrow_producer p{o.root};
    p.schema.release = [](ArrowSchema* s) { ++static_cast<arrow_producer*>(s->private_data)->schemas_released; };
    static_cast<void>(ferry::from_arrow(&p.array, &p.schema));
    CHECK(!p.schema.release);
    CHECK(p.schemas_released == 1);
}

TEST_CASE("only the release callback of a released schema is read: its name is freed") {
    orders const o;
    auto const frees_name = [](arrow_producer& p, ArrowSchema& s) {
        char* const name = new char[]{"gone"};
        s.name = name;
        s.release = nullptr;
        delete[] name;  // a later read of the name accesses freed memory
        fails(errc::bad_column, [&] { static_cast<void>(ferry::from_arrow(&p.array, &p.schema)); }, {"released"});
        fails(errc::bad_column, [&] { static_cast<void>(ferry::from_arrow_schema(&p.schema)); }, {"released"});
    };
    arrow_producer root{o.root}, child{o.root};
    frees_name(root, root.schema);
    frees_name(child, price_schema(child));
    arrow_producer distant{o.root};
    price_schema(distant).name = "not to be shown";
    price_schema(distant).release = nullptr;
    try {
        static_cast<void>(ferry::from_arrow(&distant.array, &distant.schema));
        CHECK(false);
    } catch (ferry::error const& e) {
        CHECK(std::string{e.what()}.find("not to be shown") == std::string::npos);
    }
}

TEST_CASE("a type can be read from a schema alone, for all formats") {
    support::every_type all;
    int count = 0;
    all.for_each(8, 0, [&](column_parts const& parts) {
        arrow_producer p{parts};
        auto const c = ferry::from_arrow_schema(&p.schema);
        CHECK(p.is_untouched());
        CHECK(c.format() == parts.format);
        CHECK(c.length() == 0);
        CHECK(c.null_count() == 0);
        CHECK(static_cast<std::size_t>(c.child_count()) == parts.children.size());
        ++count;
    });
    CHECK(count > 400);
    fails(errc::argument, [] { static_cast<void>(ferry::from_arrow_schema(nullptr)); });
}
