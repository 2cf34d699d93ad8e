#include <ferry/base/dtype.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>

using ferry::bits_per_element;
using ferry::byte_count;
using ferry::data_type;
using ferry::is_packed;
using ferry::is_valid;
using ferry::message;
using ferry::minor_needed;
using ferry::type_code;

namespace {

std::string text(data_type t) {
    message out;
    out << t;
    return out.c_str();
}
type_code number(unsigned n) { return static_cast<type_code>(n); }

}  // namespace

TEST_CASE("R9: any type code converts to the C struct and back, as an integer") {
    for (unsigned n = 0; n < 256; ++n) {
        DLDataType const c{static_cast<std::uint8_t>(n), 17, 300};
        data_type const t{c};
        CHECK(static_cast<unsigned>(t.code) == n);
        CHECK(t.bits == 17);
        CHECK(t.lanes == 300);
        CHECK(t.to_abi().code == n);
        CHECK(t.to_abi().bits == 17);
        CHECK(t.to_abi().lanes == 300);
    }
}

TEST_CASE("R3, R16: is_valid accepts codes 0 to 18 only") {
    for (unsigned n = 0; n < 256; ++n) {
        INFO("code ", n);
        bool some = false;
        for (unsigned bits = 0; bits < 256; ++bits)
            some = some || is_valid({number(n), static_cast<std::uint8_t>(bits)});
        CHECK(some == (n <= 18));
    }
}

TEST_CASE("R17: bits are those of the whole element") {
    CHECK(is_valid({type_code::complex, 64}));
    CHECK_FALSE(is_valid({type_code::complex, 8}));
    CHECK_FALSE(is_valid({type_code::complex, 24}));
    CHECK(is_valid({type_code::complex, 32}));
    CHECK(is_valid({type_code::bool_, 8}));
    CHECK_FALSE(is_valid({type_code::bool_, 1}));
    CHECK_FALSE(is_valid({type_code::bool_, 16}));
    CHECK(is_valid({type_code::bcomplex, 32}));
    CHECK_FALSE(is_valid({type_code::bcomplex, 64}));
    CHECK(is_valid({type_code::bfloat, 16}));
    CHECK_FALSE(is_valid({type_code::bfloat, 32}));
}

TEST_CASE("R16: valid numbers of bits of integers, floats and handles") {
    for (int n : {1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128}) {
        auto const bits = static_cast<std::uint8_t>(n);
        CHECK(is_valid({type_code::int_, bits}));
        CHECK(is_valid({type_code::uint, bits}));
        CHECK(is_valid({type_code::float_, bits}) == (bits >= 8));
        CHECK(is_valid({type_code::opaque_handle, bits}) == (bits >= 8));
    }
    CHECK_FALSE(is_valid({type_code::int_, 12}));
    CHECK_FALSE(is_valid({type_code::float_, 12}));
}

TEST_CASE("R17: a type of 0 bits or 0 lanes is not valid") {
    for (unsigned n = 0; n <= 18; ++n) CHECK_FALSE(is_valid({number(n), 0}));
    CHECK_FALSE(is_valid({type_code::float_, 32, 0}));
    CHECK(is_valid({type_code::float_, 32, 4}));
    CHECK(is_valid({type_code::float_, 32, 65535}));
}

TEST_CASE("R18: FP8 has 8 bits, FP6 has 6, FP4 has 4") {
    for (unsigned n = 7; n <= 17; ++n) {
        unsigned const right = n <= 14 ? 8 : n <= 16 ? 6 : 4;
        for (unsigned bits = 1; bits < 256; ++bits) {
            INFO("code ", n, " bits ", bits);
            CHECK(is_valid({number(n), static_cast<std::uint8_t>(bits)}) == (bits == right));
        }
    }
}

TEST_CASE("R13, R19: sub-byte elements are packed unless they are padded") {
    data_type const int4{type_code::int_, 4}, fp6{type_code::float6_e2m3fn, 6}, fp4x2{type_code::float4_e2m1fn, 4, 2};
    CHECK(bits_per_element(int4) == 4);
    CHECK(bits_per_element(int4, true) == 8);
    CHECK(bits_per_element(fp6, true) == 8);
    CHECK(bits_per_element(fp4x2) == 8);
    CHECK(bits_per_element({type_code::int_, 4, 3}) == 12);
    CHECK(bits_per_element({type_code::int_, 4, 3}, true) == 16);
    CHECK(bits_per_element({type_code::float_, 64}, true) == 64);
    CHECK(bits_per_element({type_code::int_, 248, 65535}) == 248 * 65535);
    CHECK(is_packed(int4));
    CHECK_FALSE(is_packed(int4, true));
    CHECK(is_packed(fp6));
    CHECK_FALSE(is_packed(fp4x2));
    CHECK_FALSE(is_packed({type_code::uint, 8}));
}

TEST_CASE("R19: count packed elements take ceil(count * bits / 8) bytes in total") {
    std::int64_t bytes = -1;
    struct {
        std::int64_t count;
        data_type type;
        bool padded;
        std::int64_t bytes;
    } const rows[] = {
        {0, {type_code::int_, 4}, false, 0},          {1, {type_code::int_, 4}, false, 1},
        {2, {type_code::int_, 4}, false, 1},          {3, {type_code::int_, 4}, false, 2},
        {3, {type_code::int_, 4}, true, 3},           {7, {type_code::uint, 1}, false, 1},
        {9, {type_code::uint, 1}, false, 2},          {4, {type_code::float6_e3m2fn, 6}, false, 3},
        {5, {type_code::float6_e3m2fn, 6}, false, 4}, {5, {type_code::float6_e3m2fn, 6}, true, 5},
        {1001, {type_code::uint, 3}, false, 376},     {3, {type_code::float4_e2m1fn, 4, 2}, false, 3},
        {10, {type_code::complex, 128}, false, 160},  {3, {type_code::uint, 8, 4}, false, 12},
    };
    for (auto const& row : rows) {
        INFO(row.count, " x ", text(row.type));
        CHECK(byte_count(row.count, row.type, row.padded, bytes));
        CHECK(bytes == row.bytes);
    }
}

TEST_CASE("R32: byte_count reports sizes that do not fit 63 bits, and no others") {
    std::int64_t bytes = 0;
    CHECK(byte_count(INT64_MAX, {type_code::uint, 8}, false, bytes));
    CHECK(bytes == INT64_MAX);
    CHECK(byte_count(INT64_MAX, {type_code::uint, 4}, false, bytes));
    CHECK(bytes == INT64_MAX / 2 + 1);
    CHECK_FALSE(byte_count(INT64_MAX / 2 + 1, {type_code::uint, 16}, false, bytes));
    CHECK(byte_count(INT64_MAX / 2, {type_code::uint, 16}, false, bytes));
    CHECK_FALSE(byte_count(std::int64_t{1} << 60, {type_code::float_, 64}, false, bytes));
    CHECK_FALSE(byte_count(INT64_MAX / 8, {type_code::uint, 8, 65535}, false, bytes));
}

TEST_CASE("R4: the FP8, FP6 and FP4 codes require version 1.1") {
    for (unsigned n = 0; n <= 6; ++n) CHECK(minor_needed({number(n), 8}) == 0);
    for (unsigned n = 7; n <= 17; ++n) CHECK(minor_needed({number(n), 8}) == 1);
}

TEST_CASE("messages contain the usual names of types") {
    CHECK(text({type_code::float_, 32}) == "float32");
    CHECK(text({type_code::int_, 4}) == "int4");
    CHECK(text({type_code::uint, 8, 4}) == "uint8x4");
    CHECK(text({type_code::bool_, 8}) == "bool");
    CHECK(text({type_code::complex, 64}) == "complex64");
    CHECK(text({type_code::bfloat, 16}) == "bfloat16");
    CHECK(text({type_code::opaque_handle, 64}) == "handle64");
    CHECK(text({type_code::float8_e3m4, 8}) == "float8_e3m4");
    CHECK(text({type_code::float8_e4m3fn, 8}) == "float8_e4m3fn");
    CHECK(text({type_code::float8_e8m0fnu, 8}) == "float8_e8m0fnu");
    CHECK(text({type_code::float6_e3m2fn, 6}) == "float6_e3m2fn");
    CHECK(text({type_code::float4_e2m1fn, 4, 2}) == "float4_e2m1fnx2");
    CHECK(text({type_code::bcomplex, 32}) == "bcomplex32");
    std::set<std::string> names;
    for (unsigned n = 7; n <= 14; ++n) names.insert(text({number(n), 8}));
    CHECK(names.size() == 8);
}

TEST_CASE("messages contain the numbers of types that are not valid") {
    CHECK(text({number(200), 8}) == "(code 200, bits 8, lanes 1)");
    CHECK(text({number(19), 8}) == "(code 19, bits 8, lanes 1)");
    CHECK(text({type_code::float4_e2m1fn, 8}) == "(code 17, bits 8, lanes 1)");
    CHECK(text({type_code::float_, 32, 0}) == "(code 2, bits 32, lanes 0)");
}
