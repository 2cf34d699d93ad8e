#include <ferry/wire/binary.hpp>
#include <ferry/wire/check.hpp>
#include <ferry/wire/detail/crc32c.hpp>

#include <support/allocation_failure.hpp>
#include <support/descriptors.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

using namespace ferry::wire;
using ferry::errc;
using bytes = std::vector<std::byte>;

namespace {

/// From an allocation of exactly their size, so that a sanitizer detects a read beyond it.
auto read(bytes const& from, auto reader) {
    std::unique_ptr<std::byte[]> const exact{new std::byte[from.size()]};
    if (!from.empty()) std::memcpy(exact.get(), from.data(), from.size());
    return reader(std::span<std::byte const>{exact.get(), from.size()});
}
descriptor read(bytes const& from) {
    return read(from, [](auto exact) { return from_bytes(exact); });
}

void refuses(bytes const& from, std::initializer_list<char const*> texts = {}) {
    support::both_fail(
        errc::bad_descriptor, [&] { static_cast<void>(read(from)); },
        [&] { return read(from, [](auto exact) { return try_from_bytes(exact); }); }, texts);
}

void put(bytes& out, std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<std::byte>(value >> 8 * i & 0xff));
}
void set(bytes& in, std::size_t at, std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) in[at + i] = static_cast<std::byte>(value >> 8 * i & 0xff);
}
std::uint64_t get(bytes const& in, std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(in[at + i]);
    return value;
}
void insert(bytes& into, std::size_t at, bytes const& what) {
    into.insert(into.begin() + static_cast<std::ptrdiff_t>(at), what.begin(), what.end());
}
/// The bytes with a valid checksum.
bytes sealed(bytes in) {
    in.resize(in.size() - 4);
    put(in, detail::crc32c(in), 4);
    return in;
}
bytes a_record(unsigned tag, std::size_t length) {
    bytes out;
    put(out, tag, 2), put(out, length, 4);
    out.resize(out.size() + length, std::byte{0xee});
    return out;
}
/// Offsets of the records of a document, and of its end.
std::vector<std::size_t> borders(bytes const& in) {
    std::vector<std::size_t> out{8};
    while (out.back() < in.size() - 4)
        out.push_back(out.back() + 6 + static_cast<std::size_t>(get(in, out.back() + 2, 4)));
    return out;
}

}  // namespace

TEST_CASE("a descriptor written as bytes is read unchanged") {
    for (auto const& [name, d] : support::descriptors()) {
        INFO(name);
        auto const written = to_bytes(d);
        CHECK(read(written) == d);
        CHECK(to_bytes(read(written)) == written);
    }
}

TEST_CASE("the bytes of a document are those that docs/wire.md states") {
    ferry::wire::descriptor d =
        support::describe(support::host_memory(8),
                          {.dtype = {ferry::type_code::int_, 16}, .shape = {2}, .strides = {-1}, .byte_offset = 6});
    d.memories[0].name = "/f";
    bytes expected;
    for (char const c : {'F', 'R', 'Y', 'D'}) expected.push_back(static_cast<std::byte>(c));
    put(expected, 2, 2), put(expected, 1, 2);
    put(expected, 1, 2), put(expected, 28, 4);  // origin
    put(expected, 42, 4), put(expected, 4026531836, 8);
    for (unsigned i = 0; i < 16; ++i) put(expected, 0x10 + i, 1);
    put(expected, 2, 2), put(expected, 67, 4);  // memory
    put(expected, 1, 1), put(expected, 1, 4), put(expected, 0, 8), put(expected, 0, 8);
    put(expected, 7, 8), put(expected, 8200, 8), put(expected, 4096, 8), put(expected, 8, 8);
    put(expected, 2, 4), put(expected, '/', 1), put(expected, 'f', 1), put(expected, 0, 4), put(expected, 0, 4);
    put(expected, 3, 2), put(expected, 48, 4);  // tensor
    put(expected, 0, 1), put(expected, 16, 1), put(expected, 1, 2), put(expected, 0, 4), put(expected, 6, 8),
        put(expected, 0, 8);
    put(expected, 1, 4), put(expected, 2, 8), put(expected, 1, 4), put(expected, UINT64_MAX, 8);
    put(expected, detail::crc32c(expected), 4);
    CHECK(to_bytes(d) == expected);
}

TEST_CASE("a later minor version is read: unknown records and longer records are skipped, at every level") {
    for (auto const& [name, d] : support::descriptors()) {
        INFO(name);
        auto const written = to_bytes(d);
        auto const at = borders(written);
        for (auto const where : at) {  // an unknown record between any two
            auto later = written;
            set(later, 6, 7, 2);
            insert(later, where, a_record(0x7777, 5));
            auto const got = read(sealed(later));
            CHECK(got.minor == 7);
            CHECK(got.memories == d.memories);
            CHECK(got.root == d.root);
            CHECK(read(to_bytes(got)) == d);  // written with this minor version again
        }
        for (std::size_t i = 0; i + 1 < at.size(); ++i) {                                 // each record longer
            if (auto const tag = get(written, at[i], 2); tag == 4 || tag == 8) continue;  // these consist of records
            auto later = written;
            insert(later, at[i + 1], bytes(9));
            set(later, at[i] + 2, at[i + 1] - at[i] - 6 + 9, 4);
            CHECK(read(sealed(later)) == d);
        }
    }
}

TEST_CASE("a later minor version of a node: its fields may be longer, and records among its children unknown") {
    descriptor d;
    d.root = node{.format = "n", .length = 3, .null_count = 3};
    auto later = to_bytes(d);
    auto const column = borders(later)[1], fields = column + 6;
    auto const length = static_cast<std::size_t>(get(later, fields + 2, 4));
    insert(later, fields + 6 + length, bytes(11));
    set(later, fields + 2, length + 11, 4);
    auto const another = a_record(0x1234, 3);
    insert(later, fields, another);
    set(later, column + 2, get(later, column + 2, 4) + 11 + another.size(), 4);
    CHECK(read(sealed(later)) == d);
}

TEST_CASE("unknown flag bits are neither written nor read (R14)") {
    auto d = support::describe(support::host_memory(4), {.flags = ferry::flags{0x101}});
    auto written = to_bytes(d);
    CHECK(std::get<tensor>(read(written).root).flags == ferry::flags::read_only);
    auto const at = borders(written)[2] + 6 + 16;
    CHECK(get(written, at, 8) == 1);
    set(written, at, UINT64_MAX, 8);
    CHECK(std::get<tensor>(read(sealed(written)).root).flags == ferry::known(ferry::flags{UINT64_MAX}));
}

TEST_CASE("another major version is refused with its number, with any bytes after it") {
    auto other = to_bytes(support::a_column());
    set(other, 4, 1, 2), set(other, 6, 3, 2);
    refuses(other, {"version 1.3", "major"});
    other.resize(8);
    refuses(other, {"version 1.3"});
}

TEST_CASE("bytes that are not a descriptor are refused with the reason") {
    refuses({}, {"truncated", "magic"});
    auto other = to_bytes(support::a_column());
    other[3] = std::byte{'X'};
    refuses(other, {"FRYD"});
}

TEST_CASE("every truncation is refused, with a valid checksum and without") {
    for (auto const& [name, d] : support::descriptors()) {
        INFO(name);
        auto const written = to_bytes(d);
        for (std::size_t size = 0; size < written.size(); ++size) {
            bytes const cut{written.begin(), written.begin() + static_cast<std::ptrdiff_t>(size)};
            refuses(cut);
            if (size >= 12) refuses(sealed(cut));  // a record is truncated, or the root is missing
        }
    }
}

TEST_CASE("every flipped bit is refused by the checksum") {
    auto written = to_bytes(support::a_column());
    for (std::size_t i = 0; i < 8 * written.size(); ++i) {
        written[i / 8] ^= std::byte{1} << i % 8;
        refuses(written);
        written[i / 8] ^= std::byte{1} << i % 8;
    }
    written.back() ^= std::byte{1};
    refuses(written, {"checksum"});
}

TEST_CASE("with a valid checksum, a changed byte gives a descriptor that passes the check, or an error") {
    int accepted = 0, refused = 0;
    for (auto const& [name, d] : support::descriptors()) {
        auto const written = to_bytes(d);
        for (std::size_t i = 8; i < written.size() - 4; ++i)
            for (unsigned const value : {0u, 1u, 0x7fu, 0x80u, 0xffu}) {
                auto forged = written;
                forged[i] = static_cast<std::byte>(value);
                try {
                    check(read(sealed(forged)));
                    ++accepted;
                } catch (ferry::error const& e) {
                    CHECK(e.code() == errc::bad_descriptor);
                    ++refused;
                }
            }
    }
    CHECK(accepted > 1000);
    CHECK(refused > 1000);
}

TEST_CASE("a count beyond the size of the document allocates no memory") {
    descriptor d;
    d.root = node{.format = "n"};
    auto forged = to_bytes(d);
    set(forged, forged.size() - 8, 0xffff'ffff, 4);  // the number of buffers
    forged = sealed(forged);
    int allocations = 0;
    std::string what;
    what.reserve(400);
    {
        support::allocation_window window;
        try {
            static_cast<void>(from_bytes(forged));
        } catch (ferry::error const& e) {
            allocations = window.allocations();
            what = e.what();
        }
    }
    CHECK(allocations < 4);
    CHECK(what.find("4294967295 items") != std::string::npos);
}

TEST_CASE("required records that are missing or repeated are refused") {
    auto const written = to_bytes(support::descriptors()[0].d);
    auto const at = borders(written);
    for (std::size_t const i : {0u, 2u}) {
        bytes const one{written.begin() + static_cast<std::ptrdiff_t>(at[i]),
                        written.begin() + static_cast<std::ptrdiff_t>(at[i + 1])};
        auto twice = written, none = written;
        insert(twice, at[i], one);
        refuses(sealed(twice), {i == 0 ? "a second record of the origin" : "a second tensor, column or list"});
        none.erase(none.begin() + static_cast<std::ptrdiff_t>(at[i]),
                   none.begin() + static_cast<std::ptrdiff_t>(at[i + 1]));
        refuses(sealed(none), {i == 0 ? "no record of the origin" : "no record of a tensor, column or list"});
    }
}

TEST_CASE("a list consists of the records of its items; others in it are skipped, and no list is in a list") {
    descriptor d;
    d.root = list{node{.format = "n", .length = 1}, node{.format = "n", .length = 2}};
    auto const written = to_bytes(d);
    auto const at = borders(written)[1], items = at + 6;
    CHECK(get(written, at, 2) == 8);
    auto const length = static_cast<std::size_t>(get(written, at + 2, 4));
    for (unsigned const tag : {0x7777u, 1u, 2u, 8u}) {  // also records that are known elsewhere
        auto later = written;
        auto const unknown = a_record(tag, 5);
        insert(later, items + length / 2, unknown);
        set(later, at + 2, length + unknown.size(), 4);
        CHECK(read(sealed(later)) == d);
    }
    auto twice = written;
    insert(twice, at, {written.begin() + static_cast<std::ptrdiff_t>(at), written.end() - 4});
    refuses(sealed(twice), {"a second tensor, column or list"});
    auto cut = written;
    set(cut, at + 2, length - 1, 4);
    refuses(sealed(cut), {"truncated"});
}

TEST_CASE("a list of the shortest records takes memory that is linear in the number of bytes") {
    descriptor d;
    d.root = list(10'000, tensor{.dtype = ferry::dtype_of<float>});
    d.memories = {support::host_memory(4)};
    auto const written = to_bytes(d);
    int allocations = 0;
    {
        support::allocation_window window;
        static_cast<void>(from_bytes(written));
        allocations = window.allocations();
    }
    CHECK(allocations < 8);
}

TEST_CASE("a node has its fields exactly once, and the depth of a tree is limited") {
    descriptor d;
    d.root = node{.format = "n"};
    auto const written = to_bytes(d);
    auto const column = borders(written)[1];
    auto const length = get(written, column + 2, 4);
    auto twice = written;
    insert(twice, column + 6,
           {written.begin() + static_cast<std::ptrdiff_t>(column + 6),
            written.begin() + static_cast<std::ptrdiff_t>(column + 6 + length)});
    set(twice, column + 2, 2 * length, 4);
    refuses(sealed(twice), {"two records of fields"});
    auto none = written;
    set(none, column + 6, 99, 2);
    refuses(sealed(none), {"no record of its fields"});
    bytes deep;
    for (std::size_t i = 0; i < 100'000; ++i) {  // children alone, each the only record of its parent
        put(deep, i == 0 ? 4 : 6, 2), put(deep, 6 * (99'999 - i), 4);
    }
    auto nested = written;
    nested.resize(column);
    insert(nested, column, deep);
    nested.resize(nested.size() + 4);
    refuses(sealed(nested), {"deeper than 64"});
}

TEST_CASE("an invalid descriptor is not written") {
    auto d = support::descriptors()[0].d;
    std::get<tensor>(d.root).byte_offset = 1;
    support::fails(errc::bad_descriptor, [&] { static_cast<void>(to_bytes(d)); }, {"ferry::wire::to_bytes", "/tensor"});
    d.major = 1;
    support::fails(errc::bad_descriptor, [&] { static_cast<void>(to_bytes(d)); }, {"version 1.1"});
}

TEST_CASE("writing and reading leak nothing when memory is short") {
    auto const d = support::a_column();
    auto const written = to_bytes(d);
    CHECK(support::for_each_failing_allocation([&](int) { static_cast<void>(to_bytes(d)); }) > 1);
    CHECK(support::for_each_failing_allocation([&](int) { static_cast<void>(from_bytes(written)); }) > 1);
}
