// Copies that are refused, and their errors.
#include <ferry/space/copy_plan.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>

namespace {

std::int64_t const square[] = {3, 3}, oblong[] = {2, 3}, line[] = {9}, none[] = {0, 3};
float data[9] = {};

struct failure {
    ferry::errc code = ferry::errc::ok;
    std::string text;
};

failure plan_failure(ferry::tensor_view dst, ferry::tensor_view src) {
    try {
        static_cast<void>(ferry::make_copy_plan(dst, src));
        CHECK(ferry::try_make_copy_plan(dst, src));
    } catch (ferry::error const& e) {
        auto const returned = ferry::try_make_copy_plan(dst, src);
        REQUIRE_FALSE(returned.has_value());
        CHECK(returned.error().code() == e.code());
        CHECK(std::string{returned.error().what()} == e.what());
        return {e.code(), e.what()};
    }
    return {};
}

bool says(failure const& f, char const* words) { return f.text.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("the error of a copy between different shapes contains both shapes") {
    auto const f = plan_failure({data, oblong}, {data, square});
    CHECK(f.code == ferry::errc::shape);
    CHECK(says(f, "ferry::make_copy_plan: "));
    CHECK(says(f, "(2, 3)"));
    CHECK(says(f, "(3, 3)"));
    CHECK(plan_failure({data, line}, {data, square}).code == ferry::errc::shape);
    CHECK(plan_failure({data, ferry::shape_view{}}, {data, line}).code == ferry::errc::shape);
}

TEST_CASE("R25: a copy rejects NULL extents of rank 1 or more, on either side") {
    for (int const rank : {1, 2}) {
        ferry::tensor_view const null{data, ferry::shape_view{nullptr, rank}};
        for (auto const& [dst, src] : {std::pair{null, null},
                                       {null, {data, square}},
                                       {{data, square}, null},
                                       {null, {data, line}},
                                       {{data, line}, null},
                                       {{data, ferry::shape_view{}}, null}}) {
            auto const f = plan_failure(dst, src);
            CHECK(f.code == ferry::errc::shape);
            CHECK(says(f, "shape is NULL"));
            CHECK(says(f, "R25"));
        }
    }
}

TEST_CASE("the error of a copy between different dtypes contains both dtypes") {
    std::int32_t integers[9] = {};
    auto const f = plan_failure({data, square}, {integers, square});
    CHECK(f.code == ferry::errc::dtype);
    CHECK(says(f, "float32"));
    CHECK(says(f, "int32"));
}

TEST_CASE("dtypes that differ in bits or lanes are different") {
    ferry::data_type const plain{ferry::type_code::float_, 32}, pair{ferry::type_code::float_, 32, 2};
    CHECK(plan_failure({data, plain, line}, {data, pair, line}).code == ferry::errc::dtype);
}

TEST_CASE("R11: a copy rejects a read-only destination and accepts a read-only source") {
    float const* const constant = data;
    auto const f = plan_failure({constant, square}, {data, square});
    CHECK(f.code == ferry::errc::read_only);
    CHECK(says(f, "R11"));
    CHECK(plan_failure({data, square}, {constant, square}).code == ferry::errc::ok);
}

TEST_CASE("R29: a copy rejects a destination that repeats elements and accepts such a source") {
    std::int64_t const rows[] = {0, 1}, columns[] = {1, 0};
    auto const f = plan_failure({data, square, columns}, {data, square});
    CHECK(f.code == ferry::errc::strides);
    CHECK(says(f, "dimension 1"));
    CHECK(says(f, "R29"));
    CHECK(plan_failure({data, square, rows}, {data, square}).code == ferry::errc::strides);
    CHECK(plan_failure({data, square}, {data, square, rows}).code == ferry::errc::ok);
}

TEST_CASE("R26, R27: stride 0 is accepted in empty tensors and in dimensions of extent 1") {
    std::int64_t const zeros[] = {0, 0}, row[] = {1, 3}, unused[] = {0, 1};
    CHECK(plan_failure({data, none, zeros}, {data, none}).code == ferry::errc::ok);
    CHECK(plan_failure({data, row, unused}, {data, row}).code == ferry::errc::ok);
}

TEST_CASE("R32: shapes whose size overflows are rejected, unless they are empty") {
    std::int64_t const vast[] = {std::int64_t{1} << 32, std::int64_t{1} << 32};
    std::int64_t const wide[] = {std::int64_t{1} << 61};
    std::int64_t const empty[] = {std::int64_t{1} << 32, std::int64_t{1} << 32, 0};
    CHECK(plan_failure({data, vast}, {data, vast}).code == ferry::errc::overflow);
    CHECK(plan_failure({data, wide}, {data, wide}).code == ferry::errc::overflow);
    CHECK(plan_failure({data, empty}, {data, empty}).code == ferry::errc::ok);
    CHECK(ferry::make_copy_plan({data, empty}, {data, empty}).kind == ferry::copy_kind::empty);
}

TEST_CASE("the error of a failed copy contains the function that was called") {
    try {
        static_cast<void>(ferry::make_copy_plan({data, oblong}, {data, square}, "ferry::copy"));
        FAIL("no error");
    } catch (ferry::error const& e) {
        CHECK(std::string{e.api()} == "ferry::copy");
        CHECK(std::string{e.what()}.starts_with("ferry::copy: "));
    }
}

TEST_CASE("R26: a null data pointer of a tensor with elements is rejected on both sides") {
    ferry::tensor_view const nowhere{static_cast<float*>(nullptr), line};
    auto const f = plan_failure({data, line}, nowhere);
    CHECK(f.code == ferry::errc::null_data);
    CHECK(says(f, "the source"));
    CHECK(says(plan_failure(nowhere, {data, line}), "the destination"));
    CHECK(plan_failure({static_cast<float*>(nullptr), none}, {static_cast<float*>(nullptr), none}).code ==
          ferry::errc::ok);
}

TEST_CASE("R32: strides that are fewer than the extents are rejected") {
    std::int64_t const one[] = {3};
    auto const f = plan_failure({data, square}, {data, square, one});
    CHECK(f.code == ferry::errc::strides);
    CHECK(says(f, "2 extents but 1 strides"));
    CHECK(plan_failure({data, square, one}, {data, square}).code == ferry::errc::strides);
}

TEST_CASE("R32: a copy of negative extents is rejected") {
    std::int64_t const negative[] = {-1}, square_of_negatives[] = {-3, -3}, beside_zero[] = {0, -1};
    auto const f = plan_failure({data, negative}, {data, negative});
    CHECK(f.code == ferry::errc::shape);
    CHECK(says(f, "shape[0] is -1"));
    CHECK(plan_failure({data, square_of_negatives}, {data, square_of_negatives}).code == ferry::errc::shape);
    CHECK(plan_failure({data, beside_zero}, {data, beside_zero}).code == ferry::errc::shape);
    ferry::shape_view const no_rank{line, -1};
    CHECK(plan_failure({data, no_rank}, {data, no_rank}).code == ferry::errc::rank);
}
