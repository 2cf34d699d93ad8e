// ferry: CRC-32C (Castagnoli), the checksum of a descriptor.
#pragma once

#include <ferry/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace FERRY_NAMESPACE::wire::detail {

/// Row k is the effect of a byte on the checksum if k bytes follow it, so that eight bytes need eight independent
/// look-ups.
inline constexpr auto crc_table = [] {
    std::array<std::array<std::uint32_t, 256>, 8> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t c = i;
        for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? 0x82f6'3b78u : 0u);
        t[0][i] = c;
    }
    for (std::size_t k = 1; k < 8; ++k)
        for (std::size_t i = 0; i < 256; ++i) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xff];
    return t;
}();

[[nodiscard]] constexpr std::uint32_t little_endian(std::byte const* p) noexcept {
    return std::to_integer<std::uint32_t>(p[0]) | std::to_integer<std::uint32_t>(p[1]) << 8 |
           std::to_integer<std::uint32_t>(p[2]) << 16 | std::to_integer<std::uint32_t>(p[3]) << 24;
}

/// Returns the CRC-32C of bytes, as in iSCSI (RFC 3720, B.4): 0xe3069283 for "123456789". `before` is the checksum of
/// the preceding bytes. Detects accidental changes only.
[[nodiscard]] constexpr std::uint32_t crc32c(std::span<std::byte const> bytes, std::uint32_t before = 0) noexcept {
    auto const& t = crc_table;
    std::uint32_t c = ~before;
    std::byte const* p = bytes.data();
    std::size_t n = bytes.size();
    for (; n >= 8; n -= 8, p += 8) {
        std::uint32_t const low = little_endian(p) ^ c, high = little_endian(p + 4);
        c = t[7][low & 0xff] ^ t[6][low >> 8 & 0xff] ^ t[5][low >> 16 & 0xff] ^ t[4][low >> 24] ^ t[3][high & 0xff] ^
            t[2][high >> 8 & 0xff] ^ t[1][high >> 16 & 0xff] ^ t[0][high >> 24];
    }
    for (; n != 0; --n, ++p) c = (c >> 8) ^ t[0][(c ^ std::to_integer<std::uint32_t>(*p)) & 0xff];
    return ~c;
}

}  // namespace FERRY_NAMESPACE::wire::detail
