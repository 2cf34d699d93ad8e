#include <ferry/ipc/range.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>

using ferry::flags;
using ferry::tensor_view;
using ferry::type_code;
using ferry::ipc::byte_range;
using ferry::ipc::range_of;

namespace {

std::byte memory[4096];
std::byte* const at = memory + 1024;

byte_range of(std::array<std::int64_t, 2> shape, std::array<std::int64_t, 2> strides,
              ferry::data_type type = ferry::dtype_of<float>, flags bits = flags::none) {
    return range_of(tensor_view{static_cast<void*>(at), type, shape, strides, ferry::cpu, bits});
}

}  // namespace

TEST_CASE("a range extends from the first element to the end of the last") {
    CHECK(of({2, 3}, {3, 1}) == byte_range{at, 24, 0});
    CHECK(of({2, 3}, {1, 2}) == byte_range{at, 24, 0});
    CHECK(of({2, 3}, {30, 2}) == byte_range{at, 4 * 35, 0});
    // R25.
    CHECK(range_of(tensor_view{reinterpret_cast<float*>(at), ferry::shape_view{nullptr, 0}}) == byte_range{at, 4, 0});
}

TEST_CASE("R28: element 0 of reversed tensors is inside the range") {
    CHECK(of({2, 3}, {3, -1}) == byte_range{at - 8, 24, 8});
    CHECK(of({2, 3}, {-3, -1}) == byte_range{at - 20, 24, 20});
}

TEST_CASE("R27, R29: broadcast dimensions, and strides of extents of 1, do not extend the range") {
    CHECK(of({1000, 3}, {0, 1}) == byte_range{at, 12, 0});
    CHECK(of({1, 3}, {1 << 30, 1}) == byte_range{at, 12, 0});
}

TEST_CASE("R26: the range of an empty tensor is empty") { CHECK(of({0, 3}, {3, 1}) == byte_range{}); }

TEST_CASE("R13, R19: the range of packed elements begins and ends at whole bytes") {
    CHECK(of({3, 1}, {1, 1}, {type_code::float4_e2m1fn, 4}) == byte_range{at, 2, 0});
    CHECK(of({3, 1}, {-1, 1}, {type_code::float4_e2m1fn, 4}) == byte_range{at - 1, 2, 1});
    CHECK(of({3, 1}, {1, 1}, {type_code::float4_e2m1fn, 4}, flags::subbyte_padded) == byte_range{at, 3, 0});
}
