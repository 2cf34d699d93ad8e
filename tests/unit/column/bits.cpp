// Bits: counted, copied, unpacked and packed at every offset and length, next to memory that must not be accessed.
#include <ferry/column/bitmap.hpp>
#include <ferry/column/detail/bits.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

using ferry::bitmap_bytes;
using ferry::bitmap_view;

namespace {

/// Exactly the bytes of the bits, so that a sanitizer detects a read beyond them.
struct bits {
    std::unique_ptr<unsigned char[]> data;
    std::int64_t offset, length;
    [[nodiscard]] bitmap_view view() const { return {data.get(), offset, length}; }
};

bits random_bits(std::mt19937& random, std::int64_t offset, std::int64_t length) {
    auto const n = static_cast<std::size_t>(bitmap_bytes(offset + length));
    bits b{std::make_unique<unsigned char[]>(n), offset, length};
    std::generate_n(b.data.get(), n, [&] { return static_cast<unsigned char>(random()); });
    return b;
}

template <class Check>
void for_all_places(Check check) {
    std::mt19937 random{1};
    for (std::int64_t offset = 0; offset < 18; ++offset)
        for (std::int64_t const length : {0,   1,   2,   7,   8,   9,   15,  16,   17,   63,   64,   65,
                                          100, 127, 128, 129, 191, 192, 193, 1000, 2047, 2048, 2049, 5000})
            check(random_bits(random, offset, length));
}

}  // namespace

TEST_CASE("set bits are counted from any offset to any end") {
    for_all_places([](bits const& b) {
        std::int64_t expected = 0;
        for (std::int64_t i = 0; i < b.length; ++i) expected += b.view()[i];
        CHECK(ferry::detail::count_set(b.view()) == expected);
    });
    CHECK(ferry::detail::count_set({nullptr, 3, 77}) == 77);
}

TEST_CASE("bits are copied to bit 0, followed by zeros, and no other byte is written") {
    for_all_places([](bits const& b) {
        auto const n = static_cast<std::size_t>(bitmap_bytes(b.length));
        std::vector<unsigned char> to(n + 1, 0xA5);
        ferry::detail::copy_bits(b.view(), to.data());
        for (std::int64_t i = 0; i < std::int64_t(8 * n); ++i)
            if (bitmap_view{to.data(), 0, b.length}[i] != (i < b.length && b.view()[i]))
                FAIL("bit ", i, " of ", b.length, " from ", b.offset);
        CHECK(to[n] == 0xA5);
    });
    unsigned char two[] = {0, 0};
    ferry::detail::copy_bits({nullptr, 5, 11}, two);
    CHECK((two[0] == 0xff && two[1] == 0x07));
}

TEST_CASE("bits are appended after others") {
    for_all_places([](bits const& b) {
        for (std::int64_t const at : {0, 1, 7, 8, 13}) {
            for (bitmap_view const from : {b.view(), bitmap_view{nullptr, b.offset, b.length}}) {
                auto const n = static_cast<std::size_t>(bitmap_bytes(at + b.length));
                std::vector<unsigned char> to(n + 1, 0);
                for (std::int64_t i = 0; i < at; ++i)
                    to[static_cast<std::size_t>(i / 8)] |= static_cast<unsigned char>((i % 3 != 0) << (i % 8));
                to[n] = 0xA5;
                ferry::detail::copy_bits(from, to.data(), at);
                bitmap_view const all{to.data(), 0, at + b.length};
                bool same = to[n] == 0xA5;
                for (std::int64_t i = 0; i < std::int64_t(8 * n); ++i)
                    same = same && all[i] == (i < at ? i % 3 != 0 : i < at + b.length && from[i - at]);
                CHECK(same);
            }
        }
    });
}

TEST_CASE("bits are unpacked to bytes, and bytes packed to bits") {
    for_all_places([](bits const& b) {
        std::vector<unsigned char> bytes(static_cast<std::size_t>(b.length) + 1, 0xA5);
        ferry::detail::unpack_bits(b.view(), bytes.data());
        bool same = bytes.back() == 0xA5;
        for (std::int64_t i = 0; i < b.length; ++i) same = same && bytes[static_cast<std::size_t>(i)] == b.view()[i];
        CHECK(same);
        // Any byte but 0 is true.
        for (auto& byte : bytes) byte = static_cast<unsigned char>(byte << (&byte - bytes.data()) % 8);
        auto const n = static_cast<std::size_t>(bitmap_bytes(b.length));
        std::vector<unsigned char> packed(n + 1, 0xA5), expected(n + 1, 0xA5);
        ferry::detail::pack_bits(bytes.data(), b.length, packed.data());
        ferry::detail::copy_bits(b.view(), expected.data());
        CHECK(packed == expected);
    });
}
