#include <ferry/base/shape.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

using ferry::element_count;
using ferry::fill_compact_strides;
using ferry::shape_view;
using ferry::strides_view;

namespace {
constexpr std::int64_t big = std::int64_t{1} << 40;
}

TEST_CASE("a shape_view references arrays, vectors, spans, and a pointer with a rank") {
    std::int64_t const array[] = {2, 3};
    std::array<std::int64_t, 2> const standard{2, 3};
    std::vector<std::int64_t> const vector{2, 3};
    std::span<std::int64_t const> const span{vector};
    CHECK(shape_view{array}.data() == array);
    CHECK(shape_view{standard} == shape_view{array});
    CHECK(shape_view{vector} == shape_view{array});
    CHECK(shape_view{vector}.data() == vector.data());
    CHECK(shape_view{span} == shape_view{array});
    CHECK(shape_view{array, 1} != shape_view{array});
    CHECK(shape_view{array, 1}.rank() == 1);
    std::int64_t const other[] = {2, 4};
    CHECK(shape_view{other} != shape_view{array});
    std::int64_t mutable_one[] = {5};
    CHECK(shape_view{mutable_one}[0] == 5);
}

TEST_CASE("a shape_view is a range of extents") {
    std::int64_t const array[] = {2, 3, 4};
    std::int64_t sum = 0;
    for (auto const extent : shape_view{array}) sum += extent;
    CHECK(sum == 9);
    CHECK(shape_view{array}.size() == 3);
    CHECK(shape_view{array}[2] == 4);
}

TEST_CASE("R25: a shape of rank 0 may be NULL") {
    shape_view const none{nullptr, 0};
    CHECK(none.rank() == 0);
    CHECK(none == shape_view{});
    for ([[maybe_unused]] auto const extent : none) FAIL("a shape of negative rank has no extents");
    std::int64_t count = 0;
    CHECK(element_count(none, count));
    CHECK(count == 1);
}

TEST_CASE("R25: NULL extents of rank 1 or more cannot be counted") {
    for (int const rank : {1, 2, -1}) {
        std::int64_t count = 7;
        CHECK_FALSE(element_count(shape_view{nullptr, rank}, count));
        CHECK(count == 0);
    }
}

TEST_CASE("R24: a default-constructed strides_view is implicit") {
    std::int64_t const array[] = {3, 1};
    CHECK(strides_view{}.is_implicit());
    CHECK(strides_view{nullptr, 0}.is_implicit());
    CHECK_FALSE(strides_view{array}.is_implicit());
    CHECK(strides_view{array}.rank() == 2);
    std::array<std::int64_t, 2> const standard{3, 1};
    CHECK(strides_view{standard}[0] == 3);
}

TEST_CASE("strides_views are equal if both are implicit, or all strides are equal") {
    std::int64_t const a[] = {3, 1}, b[] = {3, 1}, c[] = {1, 2};
    CHECK(strides_view{a} == strides_view{b});
    CHECK(strides_view{a} != strides_view{c});
    CHECK(strides_view{a} != strides_view{b, 1});
    CHECK(strides_view{} == strides_view{});
    CHECK(strides_view{a} != strides_view{});
    CHECK(strides_view{a, 0} == strides_view{});
    CHECK(shape_view{nullptr, 2} != shape_view{a});  // R25: not dereferenced
}

TEST_CASE("R32: element_count reports overflow, except when an extent is 0") {
    std::int64_t count = -1;
    std::int64_t const fits[] = {std::int64_t{1} << 31, std::int64_t{1} << 31};
    CHECK(element_count(fits, count));
    CHECK(count == std::int64_t{1} << 62);
    std::int64_t const one_more[] = {std::int64_t{1} << 31, std::int64_t{1} << 31, 2};
    CHECK_FALSE(element_count(one_more, count));
    CHECK(count == 0);
    std::int64_t const most[] = {INT64_MAX};
    CHECK(element_count(most, count));
    CHECK(count == INT64_MAX);
    for (auto const& zero : {std::array<std::int64_t, 3>{big, big, 0}, {0, big, big}, {big, 0, big}}) {
        count = -1;
        CHECK(element_count(zero, count));
        CHECK(count == 0);
    }
}

TEST_CASE("R32: element_count fails for negative extents, even beside an extent of 0") {
    for (auto const& bad : {std::array<std::int64_t, 2>{-1, 3}, {-2, -3}, {0, -1}, {-1, 0}, {INT64_MIN, 1}}) {
        std::int64_t count = -1;
        CHECK_FALSE(element_count(bad, count));
        CHECK(count == 0);
    }
    std::int64_t const extents[] = {2, 3};
    for ([[maybe_unused]] auto const extent : shape_view{extents, -1}) FAIL("a shape of negative rank has no extents");
}

TEST_CASE("R24: compact strides are row-major; a dimension of extent 0 counts as 1") {
    std::int64_t out[3] = {-1, -1, -1};
    std::int64_t const shape[] = {2, 3, 4};
    fill_compact_strides(shape, out);
    CHECK(shape_view{out} == shape_view{std::array<std::int64_t, 3>{12, 4, 1}.data(), 3});
    std::int64_t const empty[] = {2, 0, 4};
    fill_compact_strides(empty, out);
    CHECK(out[0] == 4);
    CHECK(out[1] == 4);
    CHECK(out[2] == 1);
    fill_compact_strides({}, nullptr);
}

TEST_CASE("R26, R32: compact strides of an empty tensor do not overflow") {
    std::int64_t out[4] = {};
    std::int64_t const shape[] = {0, big, big, big};
    fill_compact_strides(shape, out);
    CHECK(out[3] == 1);
    CHECK(out[2] == big);
    CHECK(out[0] == 0);
}
