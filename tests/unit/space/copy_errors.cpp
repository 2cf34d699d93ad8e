// Copies that are refused, and their errors.
#include <ferry/space/copy_plan.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

namespace {

std::int64_t const square[] = {3, 3}, oblong[] = {2, 3}, line[] = {9}, none[] = {0, 3};
float data[9] = {};

void refuses(ferry::errc code, ferry::tensor_view dst, ferry::tensor_view src,
             std::initializer_list<char const*> texts = {}) {
    support::both_fail(
        code, [&] { static_cast<void>(ferry::make_copy_plan(dst, src)); },
        [&] { return ferry::try_make_copy_plan(dst, src); }, texts);
}

bool accepts(ferry::tensor_view dst, ferry::tensor_view src) {
    static_cast<void>(ferry::make_copy_plan(dst, src));
    return ferry::try_make_copy_plan(dst, src).has_value();
}

}  // namespace

TEST_CASE("the error of a copy between different shapes contains both shapes") {
    refuses(ferry::errc::shape, {data, oblong}, {data, square}, {"ferry::make_copy_plan: ", "(2, 3)", "(3, 3)"});
    refuses(ferry::errc::shape, {data, line}, {data, square});
    refuses(ferry::errc::shape, {data, ferry::shape_view{}}, {data, line});
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
            refuses(ferry::errc::shape, dst, src, {"shape is NULL", "R25"});
        }
    }
}

TEST_CASE("the error of a copy between different dtypes contains both dtypes") {
    std::int32_t integers[9] = {};
    refuses(ferry::errc::dtype, {data, square}, {integers, square}, {"float32", "int32"});
}

TEST_CASE("dtypes that differ in bits or lanes are different") {
    ferry::data_type const plain{ferry::type_code::float_, 32}, pair{ferry::type_code::float_, 32, 2};
    refuses(ferry::errc::dtype, {data, plain, line}, {data, pair, line});
}

TEST_CASE("R11: a copy rejects a read-only destination and accepts a read-only source") {
    float const* const constant = data;
    refuses(ferry::errc::read_only, {constant, square}, {data, square}, {"R11"});
    CHECK(accepts({data, square}, {constant, square}));
}

TEST_CASE("R29: a copy rejects a destination that repeats elements and accepts such a source") {
    std::int64_t const rows[] = {0, 1}, columns[] = {1, 0};
    refuses(ferry::errc::strides, {data, square, columns}, {data, square}, {"dimension 1", "R29"});
    refuses(ferry::errc::strides, {data, square, rows}, {data, square});
    CHECK(accepts({data, square}, {data, square, rows}));
}

TEST_CASE("R26, R27: stride 0 is accepted in empty tensors and in dimensions of extent 1") {
    std::int64_t const zeros[] = {0, 0}, row[] = {1, 3}, unused[] = {0, 1};
    CHECK(accepts({data, none, zeros}, {data, none}));
    CHECK(accepts({data, row, unused}, {data, row}));
}

TEST_CASE("R32: shapes whose size overflows are rejected, unless they are empty") {
    std::int64_t const vast[] = {std::int64_t{1} << 32, std::int64_t{1} << 32};
    std::int64_t const wide[] = {std::int64_t{1} << 61};
    std::int64_t const empty[] = {std::int64_t{1} << 32, std::int64_t{1} << 32, 0};
    refuses(ferry::errc::overflow, {data, vast}, {data, vast});
    refuses(ferry::errc::overflow, {data, wide}, {data, wide});
    CHECK(accepts({data, empty}, {data, empty}));
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
    refuses(ferry::errc::null_data, {data, line}, nowhere, {"the source"});
    refuses(ferry::errc::null_data, nowhere, {data, line}, {"the destination"});
    CHECK(accepts({static_cast<float*>(nullptr), none}, {static_cast<float*>(nullptr), none}));
}

TEST_CASE("R32: strides that are fewer than the extents are rejected") {
    std::int64_t const one[] = {3};
    refuses(ferry::errc::strides, {data, square}, {data, square, one}, {"2 extents but 1 strides"});
    refuses(ferry::errc::strides, {data, square, one}, {data, square});
}

TEST_CASE("R32: a copy of negative extents is rejected") {
    std::int64_t const negative[] = {-1}, square_of_negatives[] = {-3, -3}, beside_zero[] = {0, -1};
    refuses(ferry::errc::shape, {data, negative}, {data, negative}, {"shape[0] is -1"});
    refuses(ferry::errc::shape, {data, square_of_negatives}, {data, square_of_negatives});
    refuses(ferry::errc::shape, {data, beside_zero}, {data, beside_zero});
    ferry::shape_view const no_rank{line, -1};
    refuses(ferry::errc::rank, {data, no_rank}, {data, no_rank});
}
