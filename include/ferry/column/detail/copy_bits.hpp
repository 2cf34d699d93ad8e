// ferry: copies bits to where they begin anew: re-aligned, unpacked to bytes, packed from bytes.
#pragma once

#include <ferry/column/bitmap.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ferry::detail {

static_assert(std::endian::native == std::endian::little, "Arrow's buffers are read as they lie");

/// Up to 64 bits from bit `at` on; the bits above `n` are 0. Reads no byte in which none of them is.
[[nodiscard]] inline std::uint64_t load_bits(unsigned char const* data, std::int64_t at, std::int64_t n) noexcept {
    unsigned char const* const p = data + at / 8;
    int const shift = static_cast<int>(at % 8);
    auto const bytes = static_cast<std::size_t>(bitmap_bytes(shift + n));
    std::uint64_t word = 0;
    std::memcpy(&word, p, std::min<std::size_t>(bytes, 8));
    word >>= shift;
    if (bytes > 8) word |= std::uint64_t{p[8]} << (64 - shift);
    return n < 64 ? word & ((std::uint64_t{1} << n) - 1) : word;
}

/// Writes the bits from bit 0 of `to` on, and zeros up to the end of the last byte. The two must not overlap.
inline void copy_bits(bitmap_view from, unsigned char* to) noexcept {
    std::int64_t const length = from.length();
    auto const bytes = static_cast<std::size_t>(bitmap_bytes(length));
    if (length == 0) return;
    if (from.is_all_set()) {
        std::memset(to, 0xff, bytes);
    } else if (from.offset() % 8 == 0) {
        std::memcpy(to, from.data() + from.offset() / 8, bytes);
    } else {
        using lane [[gnu::vector_size(16)]] = std::uint64_t;
        int const shift = static_cast<int>(from.offset() % 8);
        unsigned char const* p = from.data() + from.offset() / 8;
        std::int64_t i = 0;
        for (; length - i >= 192; i += 128, p += 16) {  // 24 bytes are read
            lane low, high;
            std::memcpy(&low, p, sizeof low);
            std::memcpy(&high, p + 8, sizeof high);
            low = low >> shift | high << (64 - shift);
            std::memcpy(to + i / 8, &low, sizeof low);
        }
        for (; i < length; i += 64) {
            std::int64_t const n = std::min<std::int64_t>(length - i, 64);
            std::uint64_t const word = load_bits(from.data(), from.offset() + i, n);
            std::memcpy(to + i / 8, &word, static_cast<std::size_t>(bitmap_bytes(n)));
        }
    }
    if (length % 8 != 0) to[bytes - 1] &= static_cast<unsigned char>((1u << (length % 8)) - 1);
}

/// Writes them from bit `at` of `to` on: lower bits stay, and zeros follow up to the end of the last byte.
inline void append_bits(bitmap_view from, unsigned char* to, std::int64_t at) noexcept {
    to += at / 8;
    int const used = static_cast<int>(at % 8);
    if (used != 0 && from.length() > 0) {
        std::int64_t const head = std::min<std::int64_t>(8 - used, from.length());
        std::uint64_t const bits = from.is_all_set() ? (std::uint64_t{1} << head) - 1 : load_bits(from.data(), from.offset(), head);
        *to = static_cast<unsigned char>((*to & ((1u << used) - 1)) | bits << used);
        from = from.slice(head, from.length() - head);
        ++to;
    }
    copy_bits(from, to);
}

/// A byte of 0 or 1 for each bit.
inline void unpack_bits(bitmap_view from, unsigned char* to) noexcept {
    if (from.is_all_set()) {
        std::memset(to, 1, static_cast<std::size_t>(from.length()));
        return;
    }
    std::int64_t i = 0;
    for (; from.length() - i >= 64; i += 64) {
        std::uint64_t bits = load_bits(from.data(), from.offset() + i, 64);
        for (int byte = 0; byte < 8; ++byte, bits >>= 8) {
            // Eight copies of the byte, of each its own bit, moved to the top by a sum that cannot carry, then down.
            std::uint64_t const own = (bits & 0xff) * 0x0101'0101'0101'0101u & 0x8040'2010'0804'0201u;
            std::uint64_t const flags = (own + 0x7f7f'7f7f'7f7f'7f7fu) >> 7 & 0x0101'0101'0101'0101u;
            std::memcpy(to + i + 8 * byte, &flags, 8);
        }
    }
    for (; i < from.length(); ++i) to[i] = from[i];
}

/// A bit for each byte, 1 when it is not 0, from bit 0 of `to` on; zeros up to the end of the last byte.
inline void pack_bits(unsigned char const* from, std::int64_t length, unsigned char* to) noexcept {
    std::int64_t i = 0;
    for (; length - i >= 8; i += 8) {
        std::uint64_t bytes = 0;
        std::memcpy(&bytes, from + i, 8);
        // The top bit of a byte says whether it is 0; the product brings the eight side by side into the top byte.
        std::uint64_t const is_set = (((bytes & 0x7f7f'7f7f'7f7f'7f7fu) + 0x7f7f'7f7f'7f7f'7f7fu) | bytes) >> 7 & 0x0101'0101'0101'0101u;
        to[i / 8] = static_cast<unsigned char>(is_set * 0x0102'0408'1020'4080u >> 56);
    }
    if (i == length) return;
    unsigned last = 0;
    for (std::int64_t k = i; k < length; ++k) last |= unsigned{from[k] != 0} << (k - i);
    to[i / 8] = static_cast<unsigned char>(last);
}

}  // namespace ferry::detail
