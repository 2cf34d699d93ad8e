#include <ferry/base/shape.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <limits>

using ferry::to_element_strides;

static_assert([] {
    std::int64_t const bytes[] = {24, -8, 0};
    std::int64_t out[3] = {};
    return to_element_strides(bytes, 8, out) && out[0] == 3 && out[1] == -1 && out[2] == 0;
}());

TEST_CASE("R30: byte strides that are multiples of the item size become element strides") {
    std::int64_t const bytes[] = {12, 4, -8, 0};
    std::int64_t out[4] = {};
    CHECK(to_element_strides(bytes, 4, out));
    CHECK(out[0] == 3);
    CHECK(out[1] == 1);
    CHECK(out[2] == -2);
    CHECK(out[3] == 0);
}

TEST_CASE("R30: byte strides that are not a multiple of the item size are rejected") {
    std::int64_t out[2] = {};
    for (std::int64_t const odd : {1, 2, 3, 5, -1, -6}) {
        std::int64_t const bytes[] = {8, odd};
        CHECK(!to_element_strides(bytes, 4, out));
    }
}

TEST_CASE("R30: rank 0 and an item size of 0") {
    std::int64_t out[1] = {7};
    CHECK(to_element_strides(ferry::strides_view{}, 4, out));
    CHECK(out[0] == 7);
    std::int64_t const bytes[] = {8};
    CHECK(!to_element_strides(bytes, 0, out));
    CHECK(!to_element_strides(bytes, -4, out));
}

TEST_CASE("R30: strides may be converted in place, up to the limits of int64") {
    std::int64_t both[] = {std::numeric_limits<std::int64_t>::min(), 16};
    CHECK(to_element_strides(both, 1, both));
    CHECK(both[0] == std::numeric_limits<std::int64_t>::min());
    CHECK(to_element_strides({both, 2}, 8, both));
    CHECK(both[1] == 2);
}
