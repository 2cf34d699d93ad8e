#include <ferry/wire/check.hpp>

#include <support/allocation_failure.hpp>
#include <support/descriptors.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <variant>
#include <vector>

using namespace ferry::wire;
using ferry::errc;
using ferry::type_code;
using support::describe;

namespace {

constexpr ferry::data_type f32{type_code::float_, 32};
constexpr std::int64_t most = INT64_MAX, least = INT64_MIN;

void refuses(descriptor const& d, std::initializer_list<char const*> texts) {
    support::both_fail(errc::bad_descriptor, [&] { check(d); }, [&] { return try_check(d); }, texts);
}
void refuses(memory m, std::initializer_list<char const*> texts) {
    refuses(describe(std::move(m), {.dtype = f32, .shape = {0}}), texts);
}
void refuses(std::uint64_t length, tensor t, std::initializer_list<char const*> texts) {
    refuses(describe(support::host_memory(length), std::move(t)), texts);
}
template <class F>
memory changed(memory m, F change) {
    change(m);
    return m;
}
template <class F>
void refuses_node(F change, std::initializer_list<char const*> texts) {
    auto d = support::a_column();
    change(std::get<node>(d.root));
    refuses(d, texts);
}

}  // namespace

TEST_CASE("each item of a list is checked, and named by its place") {
    auto const changed_list = [](auto change) {
        auto d = support::a_list();
        change(std::get<list>(d.root));
        return d;
    };
    refuses(changed_list([](list& l) { std::get<tensor>(l[0]).memory = 3; }), {"/list/0/tensor/memory"});
    refuses(changed_list([](list& l) { std::get<tensor>(l[2]).byte_offset = 4090; }), {"/list/2/tensor"});
    refuses(changed_list([](list& l) { std::get<node>(l[1]).children[0].buffers[1].length = 1 << 20; }),
            {"/list/1/column/children/0/buffers/1"});
    refuses(changed_list([](list& l) { std::get<node>(l[3]).length = -1; }), {"/list/3/column/length"});
}

TEST_CASE("valid descriptors of every kind pass, without an allocation") {
    for (auto const& [name, d] : support::descriptors()) {
        INFO(name);
        int allocations = 0;
        {
            support::allocation_window window;
            check(d);
            allocations = window.allocations();
        }
        CHECK(allocations == 0);
    }
}

TEST_CASE("another major version is refused with its number, another minor version is accepted") {
    auto d = support::a_column();
    d.minor = 7;
    check(d);
    for (std::uint16_t const other : {std::uint16_t{1}, std::uint16_t{3}}) {
        d.major = other;
        refuses(d, {other == 1 ? "version 1.7" : "version 3.7", "major"});
    }
}

TEST_CASE("R32: the last element is within the range, and one more is not") {
    check(describe(support::host_memory(96), {.dtype = f32, .shape = {4, 6}}));
    refuses(95, {.dtype = f32, .shape = {4, 6}}, {"/tensor", "range of 95 bytes"});
    refuses(96, {.dtype = f32, .shape = {4, 6}, .byte_offset = 1}, {"byte_offset 1"});
    check(describe(support::host_memory(96), {.dtype = f32, .shape = {2, 2}, .strides = {22, 1}}));
    refuses(96, {.dtype = f32, .shape = {2, 2}, .strides = {23, 1}}, {"0 to 100"});
    refuses(0, {.dtype = f32}, {"0 to 4"});
}

TEST_CASE("R28: with negative strides the lowest element must be within the range") {
    check(describe(support::host_memory(24), {.dtype = f32, .shape = {2, 3}, .strides = {-3, 1}, .byte_offset = 12}));
    refuses(24, {.dtype = f32, .shape = {2, 3}, .strides = {-3, 1}, .byte_offset = 11}, {"-12 to 12"});
    refuses(24, {.dtype = f32, .shape = {2, 3}, .strides = {-3, 1}, .byte_offset = 13}, {"range of 24 bytes"});
    refuses(24, {.dtype = f32, .byte_offset = -4}, {"byte_offset -4"});
}

TEST_CASE("R29: a stride of 0 needs the memory of one element; the number of elements must fit 63 bits") {
    check(describe(support::host_memory(4), {.dtype = f32, .shape = {1000, 1000}, .strides = {0, 0}}));
    refuses(3, {.dtype = f32, .shape = {1000, 1000}, .strides = {0, 0}}, {"0 to 4"});
    refuses(4, {.dtype = f32, .shape = {most, 2}, .strides = {0, 0}}, {"/tensor/shape", "63 bits"});
}

TEST_CASE("R32: no sum and no product overflows") {
    auto const huge = changed(support::host_memory(8), [](memory& m) { m.offset = 0, m.allocation = m.length = most; });
    for (auto const& [shape, strides] :
         std::initializer_list<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>{
             {{most}, {}},
             {{1ll << 32, 1ll << 32}, {}},
             {{2}, {most}},
             {{2}, {least}},
             {{3}, {least}},
             {{2, 2}, {most, most}},
             {{2, 2}, {least, least}},
             {{2}, {1ll << 61}},
             {{2}, {1ll << 62}},
             {{most, 1}, {1, 1}}})
        refuses(describe(huge, {.dtype = f32, .shape = shape, .strides = strides}), {"/tensor"});
    for (auto const offset : {most, most - 1, most - 3, least, std::int64_t{-1}})
        refuses(describe(huge, {.dtype = f32, .byte_offset = offset}), {"byte_offset"});
    check(describe(huge, {.dtype = f32, .byte_offset = most - 4}));
}

TEST_CASE("R19: packed elements need the bytes that contain their bits, in both directions") {
    ferry::data_type const i4{type_code::int_, 4}, f6{type_code::float6_e3m2fn, 6};
    check(describe(support::host_memory(4), {.dtype = i4, .shape = {8}}));
    refuses(4, {.dtype = i4, .shape = {9}}, {"0 to 5"});
    check(describe(support::host_memory(3), {.dtype = f6, .shape = {4}}));
    refuses(2, {.dtype = f6, .shape = {3}}, {"0 to 3"});
    refuses(3, {.dtype = f6, .shape = {4}, .flags = ferry::flags::subbyte_padded}, {"0 to 4"});
    check(describe(support::host_memory(4), {.dtype = i4, .shape = {7}, .strides = {-1}, .byte_offset = 3}));
    refuses(4, {.dtype = i4, .shape = {8}, .strides = {-1}, .byte_offset = 3}, {"-4 to 1"});
}

TEST_CASE("R26: an empty tensor needs no memory, but its offset must be within the range") {
    check(describe(support::host_memory(8),
                   {.dtype = f32, .shape = {0, most, most}, .strides = {least, most, 3}, .byte_offset = 8}));
    refuses(8, {.dtype = f32, .shape = {0}, .byte_offset = 9}, {"byte_offset 9"});
    refuses(8, {.dtype = f32, .shape = {0}, .byte_offset = -1}, {"byte_offset -1"});
    refuses(8, {.dtype = f32, .shape = {0, -1}}, {"/tensor/shape/1", "-1"});
}

TEST_CASE("the memory, type and number of strides of a tensor are checked") {
    refuses(8, {.dtype = f32, .memory = 1}, {"/tensor/memory is 1", "1 memories"});
    refuses(8, {.dtype = f32, .memory = no_memory}, {"/tensor/memory"});
    refuses(descriptor{}, {"/tensor/memory is 0", "0 memories"});
    refuses(8, {.dtype = {type_code{200}, 8}}, {"/tensor/dtype", "code 200"});
    refuses(8, {.dtype = {type_code::float_, 0}}, {"/tensor/dtype"});
    refuses(8, {.dtype = {type_code::float_, 8, 0}}, {"/tensor/dtype"});
    refuses(64, {.dtype = f32, .shape = {2, 2}, .strides = {1}}, {"/tensor/strides has 1 values"});
    refuses(64, {.dtype = f32, .strides = {1}}, {"/tensor/strides"});
}

TEST_CASE("a range must be within its allocation, without overflow") {
    auto const with = [](std::uint64_t allocation, std::uint64_t offset, std::uint64_t length) {
        return changed(support::host_memory(0),
                       [&](memory& m) { m.allocation = allocation, m.offset = offset, m.length = length; });
    };
    check(describe(with(100, 40, 60), {.dtype = f32, .shape = {0}}));
    refuses(with(100, 41, 60), {"/memories/0", "offset 41", "100 bytes"});
    refuses(with(100, 0, 101), {"length 101"});
    refuses(with(100, UINT64_MAX, 2), {"/memories/0"});
    refuses(with(100, 50, UINT64_MAX - 10), {"/memories/0"});
    refuses(with(UINT64_MAX, 0, 8), {"/memories/0"});
}

TEST_CASE("each kind of memory requires its device, its handle or its name") {
    auto const cuda = support::cuda_memory(memory_kind::cuda_legacy, 8), host = support::host_memory(8);
    refuses(changed(cuda, [](memory& m) { m.kind = memory_kind{4}; }), {"/memories/0/kind is 4"});
    refuses(changed(cuda, [](memory& m) { m.type = ferry::device_type::cuda_managed; }),
            {"/memories/0/device/type", "cuda_managed"});
    refuses(changed(host, [](memory& m) { m.type = ferry::device_type::cuda; }), {"host_shared"});
    refuses(changed(host, [](memory& m) { m.type = ferry::device_type{99}; }), {"/memories/0/device/type is 99"});
    refuses(changed(cuda, [](memory& m) { m.device = {}; }), {"/memories/0/device/uuid"});
    refuses(changed(cuda, [](memory& m) { m.handle.pop_back(); }), {"/memories/0/handle has 63"});
    refuses(changed(cuda, [](memory& m) { m.handle.clear(); }), {"/memories/0/handle"});
    refuses(changed(host, [](memory& m) { m.handle = support::a_handle(0); }), {"/memories/0/handle"});
    refuses(changed(cuda, [](memory& m) { m.ready.pop_back(); }), {"/memories/0/ready has 63"});
    refuses(changed(host, [](memory& m) { m.ready = support::a_handle(0); }), {"/memories/0/ready"});
    refuses(changed(host, [](memory& m) { m.kind = memory_kind::none; }), {"/memories/0/length"});
    for (auto const* name : {"", "/", "ferry", "/../etc", "/a/b", "/.x"}) {
        refuses(changed(host, [&](memory& m) { m.name = name; }), {"/memories/0/name"});
        if (*name != '\0') refuses(changed(cuda, [&](memory& m) { m.name = name; }), {"/memories/0/name"});
    }
    refuses(changed(host, [](memory& m) { m.name = "/" + std::string(255, 'a'); }), {"/memories/0/name"});
    // A bare handle of another library.
    check(describe(changed(cuda, [](memory& m) { m.name.clear(); }), {.dtype = f32}));
}

TEST_CASE("a pid that denotes several processes is refused") {
    auto d = support::a_column();
    d.from.pid = 0xffff'ffff;
    refuses(d, {"/from/pid"});
}

TEST_CASE("the numbers, buffers, depth and strings of the nodes of a column are checked") {
    refuses_node([](node& n) { n.children[1].dictionary[0].buffers[2].offset = 1013; },
                 {"/column/children/1/dictionary/buffers/2", "range of 1024"});
    refuses_node([](node& n) { n.children[0].buffers[0].length = 4097; }, {"/column/children/0/buffers/0"});
    refuses_node([](node& n) { n.children[0].buffers[0] = {0, UINT64_MAX, 8}; }, {"/column/children/0/buffers/0"});
    refuses_node([](node& n) { n.children[0].buffers[0].memory = 2; }, {"/column/children/0/buffers/0/memory is 2"});
    refuses_node([](node& n) { n.buffers[0].length = 1; }, {"/column/buffers/0"});
    refuses_node([](node& n) { n.length = -1; }, {"/column/length"});
    refuses_node([](node& n) { n.offset = -1; }, {"/column/offset"});
    refuses_node([](node& n) { n.offset = most - 9; }, {"/column/offset"});
    refuses_node([](node& n) { n.null_count = 11; }, {"/column/null_count is 11"});
    refuses_node([](node& n) { n.null_count = -2; }, {"/column/null_count is -2"});
    refuses_node([](node& n) { n.format.clear(); }, {"/column/format"});
    refuses_node([](node& n) { n.format = "\xff"; }, {"/column/format"});
    refuses_node([](node& n) { n.children[0].name = {"a\0b", 3}; }, {"/column/children/0/name"});
    refuses_node([](node& n) { n.dictionary.resize(2, n.children[0]); }, {"/column/dictionary has 2 nodes"});
}

TEST_CASE("a tree of 64 nodes from root to leaf passes; one of 65 does not") {
    auto const nested = [](int depth, bool dictionary) {
        node tree{.format = "n"};
        for (int i = 1; i < depth; ++i) {
            node above{.format = "+s"};
            (dictionary ? above.dictionary : above.children).push_back(std::move(tree));
            tree = std::move(above);
        }
        descriptor d;
        d.root = std::move(tree);
        return d;
    };
    for (bool const dictionary : {false, true}) {
        check(nested(64, dictionary));
        refuses(
            nested(65, dictionary),
            {dictionary ? ": /column/dictionary/dictionary/dictionary/.../dictionary/dictionary/dictionary/dictionary/"
                          "dictionary/dictionary is deeper than 64"
                        : ": /column/children/0/children/.../children/0/children/0/children/0 is deeper than 64"});
    }
}
