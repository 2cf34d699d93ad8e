#include <ferry/wire/detail/crc32c.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

std::uint32_t bit_by_bit(std::span<std::byte const> bytes) {
    std::uint32_t c = 0xffff'ffff;
    for (auto const byte : bytes) {
        c ^= std::to_integer<std::uint32_t>(byte);
        for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? c >> 1 ^ 0x82f6'3b78u : c >> 1;
    }
    return ~c;
}

}  // namespace

TEST_CASE("the checksum by tables is that bit by bit, for every length and alignment") {
    std::vector<std::byte> bytes(80);
    std::uint32_t seed = 1;
    for (auto& byte : bytes) byte = static_cast<std::byte>((seed = seed * 1664525 + 1013904223) >> 24);
    std::span<std::byte const> const all{bytes};
    for (std::size_t begin = 0; begin < 9; ++begin)
        for (std::size_t size = 0; begin + size <= all.size(); ++size) {
            auto const part = all.subspan(begin, size);
            CHECK(ferry::wire::detail::crc32c(part) == bit_by_bit(part));
            CHECK(ferry::wire::detail::crc32c(part.subspan(size / 3),
                                              ferry::wire::detail::crc32c(part.first(size / 3))) == bit_by_bit(part));
        }
}

TEST_CASE("the checksum detects every flipped bit") {
    std::vector<std::byte> bytes(64);
    auto const before = ferry::wire::detail::crc32c(bytes);
    for (std::size_t i = 0; i < 8 * bytes.size(); ++i) {
        bytes[i / 8] ^= std::byte{1} << i % 8;
        CHECK(ferry::wire::detail::crc32c(bytes) != before);
        bytes[i / 8] ^= std::byte{1} << i % 8;
    }
}
