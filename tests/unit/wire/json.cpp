#include <ferry/wire/detail/hex.hpp>
#include <ferry/wire/json.hpp>

#include <support/descriptors.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <iomanip>  // its names are found for arguments of std, and must be no candidates
#include <string>
#include <string_view>
#include <utility>
#include <variant>

using namespace ferry::wire;
using ferry::errc;

// tests/schema holds all documents to the schema, and reads them with another implementation.

namespace {

bool has(descriptor const& d, std::string_view text) {
    INFO(to_json(d));
    return to_json(d).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a tensor is one line of JSON, with sorted keys") {
    auto const d = support::describe(
        support::host_memory(24),
        {.dtype = ferry::dtype_of<float>, .shape = {2, 3}, .byte_offset = 0, .flags = ferry::flags::read_only});
    CHECK(to_json(d) ==
          R"({"checksum":4270792666,"format":"ferry-descriptor",)"
          R"("from":{"boot_id":"10111213-1415-1617-1819-1a1b1c1d1e1f","pid":42,"pid_namespace":4026531836},)"
          R"("memories":[{"allocation":8216,"device":{"type":1,"uuid":"00000000-0000-0000-0000-000000000000"},)"
          R"("handle":"","id":7,"kind":"host_shared","length":24,"name":"/ferry-1000-4026531836-42-123456-7",)"
          R"("offset":4096,"ready":""}],)"
          R"("tensor":{"byte_offset":0,"dtype":{"bits":32,"code":2,"lanes":1},"flags":1,"memory":0,"shape":[2,3],)"
          R"("strides":null},"version":{"major":2,"minor":1}})");
}

TEST_CASE("the nodes of a column are nested, and an absent buffer or dictionary is null") {
    node n{.format = "+s", .name = "t", .metadata = {std::byte{0xab}}, .length = 2, .buffers = {{}}};
    n.children.push_back(
        {.format = "i", .length = 2, .null_count = 0, .offset = 1, .flags = 2, .buffers = {{}, {0, 4, 12}}});
    n.children[0].dictionary.push_back({.format = "n", .length = 5});
    descriptor const d{.from = {}, .memories = {support::host_memory(24)}, .root = std::move(n)};
    CHECK(has(d, R"("column":{"buffers":[null],"children":[{)"
                 R"("buffers":[null,{"length":12,"memory":0,"offset":4}],"children":[],)"
                 R"("dictionary":{"buffers":[],"children":[],"dictionary":null,"flags":0,"format":"n","length":5,)"
                 R"("metadata":"","name":"","null_count":-1,"offset":0},)"
                 R"("flags":2,"format":"i","length":2,"metadata":"","name":"","null_count":0,"offset":1}],)"
                 R"("dictionary":null,"flags":0,"format":"+s","length":2,"metadata":"ab","name":"t","null_count":-1,)"
                 R"("offset":0})"));
}

TEST_CASE("the items of a list are objects, whose key is their kind") {
    auto d = support::describe(support::host_memory(8), {});
    d.root = list{tensor{.dtype = ferry::dtype_of<float>, .shape = {2}}, node{.format = "n", .length = 5}};
    CHECK(has(d, R"("list":[{"tensor":{"byte_offset":0,"dtype":{"bits":32,"code":2,"lanes":1},"flags":0,"memory":0,)"
                 R"("shape":[2],"strides":null}},{"column":{"buffers":[],"children":[],"dictionary":null,"flags":0,)"
                 R"("format":"n","length":5,"metadata":"","name":"","null_count":-1,"offset":0}}],"memories")"));
    d.root = list{};
    CHECK(has(d, R"("list":[],)"));
}

TEST_CASE("integers above 2^53 are decimal strings, because some readers would round them") {
    auto d = support::describe(support::host_memory(8), {.shape = {0}, .strides = {-(std::int64_t{1} << 53) - 1}});
    d.from.pid_namespace = UINT64_MAX;
    d.memories[0].id = (std::uint64_t{1} << 53) + 1;
    CHECK(has(d, R"("strides":["-9007199254740993"])"));
    CHECK(has(d, R"("pid_namespace":"18446744073709551615")"));
    CHECK(has(d, R"("id":"9007199254740993")"));
    std::get<tensor>(d.root).strides = {-(std::int64_t{1} << 53)};
    d.memories[0].id = std::uint64_t{1} << 53;
    CHECK(has(d, R"("strides":[-9007199254740992])"));
    CHECK(has(d, R"("id":9007199254740992,)"));
}

TEST_CASE("texts are escaped as RFC 8785 requires") {
    auto d = support::a_column();
    std::get<node>(d.root).name = "\"\\/\b\f\n\r\t\x01\x1f\x7f\u20ac";
    CHECK(has(d, R"("name":"\"\\/\b\f\n\r\t\u0001\u001f)"
                 "\x7f\u20ac\""));
}

TEST_CASE("a decimal string is the one text of an integer that fits its type") {
    auto const is = [](std::string_view text, auto expected) {
        auto out = expected;
        out = 1;
        return detail::from_decimal(text, out) && out == expected;
    };
    auto const is_none = [](std::string_view text, auto out) { return !detail::from_decimal(text, out); };
    CHECK((is("18446744073709551615", UINT64_MAX) && is_none("18446744073709551616", UINT64_MAX)));
    CHECK((is("-9223372036854775808", INT64_MIN) && is_none("-9223372036854775809", INT64_MIN)));
    CHECK((is("9223372036854775807", INT64_MAX) && is_none("9223372036854775808", INT64_MAX)));
    CHECK((is("255", std::uint8_t{255}) && is_none("256", std::uint8_t{}) && is_none("-1", std::uint8_t{})));
    CHECK(is("0", 0));
    for (auto const* text : {"", "-", "00", "01", "-0", "-01", "+1", " 1", "1 ", "1.0", "0x10", "1:"})
        CHECK(is_none(text, 0));
}

TEST_CASE("an invalid descriptor is not written") {
    auto d = support::descriptors()[0].d;
    std::get<tensor>(d.root).byte_offset = 1;
    support::both_fail(
        errc::bad_descriptor, [&] { static_cast<void>(to_json(d)); }, [&] { return try_to_json(d); },
        {"ferry::wire::to_json", "/tensor"});
}
