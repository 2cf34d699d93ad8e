// Columns through Arrow's C data interface and back.
#include <ferry/arrow.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>

using ferry::column;
using ferry::column_buffer;
using ferry::errc;
using support::fails;

TEST_CASE("a column goes out and comes back with the same buffers") {
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
