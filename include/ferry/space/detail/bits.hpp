// ferry: copies of elements that are not byte-aligned (R19); runs of elements are copied word by word.
#pragma once

#include <ferry/space/detail/odometer.hpp>
#include <ferry/space/detail/simd.hpp>

#include <bit>

namespace FERRY_NAMESPACE::detail {

/// The unit of a copy in bits: `count` bits are copied, and the next `zeros` bits of the destination are cleared.
struct bit_unit {
    std::int64_t count, zeros;
};

[[nodiscard]] constexpr std::uint64_t low_bits(std::int64_t count) noexcept {
    return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

/// Reverses the bytes of a number if the host is big-endian.
[[nodiscard]] constexpr std::uint64_t little_endian(std::uint64_t w) noexcept {
    if constexpr (std::endian::native == std::endian::big) {
        w = (w & 0x00ff'00ff'00ff'00ff) << 8 | (w >> 8 & 0x00ff'00ff'00ff'00ff);
        w = (w & 0x0000'ffff'0000'ffff) << 16 | (w >> 16 & 0x0000'ffff'0000'ffff);
        w = w << 32 | w >> 32;
    }
    return w;
}
/// Loads eight bytes as a little-endian number.
[[nodiscard]] inline std::uint64_t load_word(std::byte const* p) noexcept {
    std::uint64_t w = 0;
    std::memcpy(&w, p, sizeof w);
    return little_endian(w);
}
/// Stores a number as eight little-endian bytes.
inline void store_word(std::byte* p, std::uint64_t w) noexcept {
    w = little_endian(w);
    std::memcpy(p, &w, sizeof w);
}

/// Loads `count` ≤ 56 bits from bit `at` of `p`, least significant first. Reads only bytes that contain these bits.
[[nodiscard]] inline std::uint64_t load_bits(std::byte const* p, std::int64_t at, std::int64_t count) noexcept {
    p += at >> 3;
    auto const shift = at & 7;
    std::uint64_t w = 0;
    for (std::int64_t i = 0; i * 8 < shift + count; ++i) w |= std::to_integer<std::uint64_t>(p[i]) << i * 8;
    return w >> shift & low_bits(count);
}

/// Writes `count` ≤ 56 bits; preserves the other bits of the first and last byte.
inline void store_bits(std::byte* p, std::int64_t at, std::int64_t count, std::uint64_t value) noexcept {
    p += at >> 3;
    auto const shift = at & 7;
    std::uint64_t const mask = low_bits(count) << shift;
    value = value << shift & mask;
    for (std::int64_t i = 0; i * 8 < shift + count; ++i) {
        auto const m = static_cast<std::byte>(mask >> i * 8 & 0xff);
        p[i] = (p[i] & ~m) | static_cast<std::byte>(value >> i * 8 & 0xff);
    }
}

/// Copies a run of `count` bits, first up to a byte boundary of the destination, then word by word.
inline void copy_bit_run(std::byte* dst, std::int64_t to, std::byte const* src, std::int64_t from,
                         std::int64_t count) noexcept {
    auto const short_copy = [&](std::int64_t n) noexcept {
        store_bits(dst, to, n, load_bits(src, from, n));
        to += n;
        from += n;
        count -= n;
    };
    if (count > 56 && (to & 7) != 0) short_copy(8 - (to & 7));
    if (count > 56) {
        auto* d = dst + (to >> 3);
        auto const* s = src + (from >> 3);
        auto const shift = from & 7;
        auto const whole = shift == 0 ? count / 8 * 8 : count / 64 * 64;
        if (shift == 0) {
            std::memcpy(d, s, static_cast<std::size_t>(whole / 8));
        } else {
            std::int64_t i = 0;
            if constexpr (std::endian::native == std::endian::little) {
                constexpr auto step = static_cast<std::int64_t>(sizeof(wide_word));
                for (; whole / 8 - i >= step + 8; i += step) {  // reads step + 8 bytes
                    wide_word low, high;
                    std::memcpy(&low, s + i, sizeof low);
                    std::memcpy(&high, s + i + 8, sizeof high);
                    low = low >> shift | high << (64 - shift);
                    std::memcpy(d + i, &low, sizeof low);
                }
            }
            for (; i < whole / 8; i += 8)
                store_word(d + i, load_word(s + i) >> shift | std::to_integer<std::uint64_t>(s[i + 8]) << (64 - shift));
        }
        to += whole;
        from += whole;
        count -= whole;
    }
    while (count > 0) short_copy(count < 56 ? count : 56);
}

inline void copy_bit_unit(bit_unit unit, std::byte* dst, std::int64_t to, std::byte const* src,
                          std::int64_t from) noexcept {
    copy_bit_run(dst, to, src, from, unit.count);
    if (unit.zeros != 0) store_bits(dst, to + unit.count, unit.zeros, 0);
}

/// Unpacks eight adjacent elements of `bits` ≤ 7 bits to one byte each, in three steps that each split groups in half.
/// Ignores the higher bits of `w`.
[[nodiscard]] constexpr std::uint64_t spread(std::uint64_t w, std::int64_t bits) noexcept {
    std::uint64_t const fours = low_bits(4 * bits), twos = low_bits(2 * bits) * 0x1'0000'0001,
                        ones = low_bits(bits) * 0x1'0001'0001'0001;
    w = (w & fours) | (w & fours << 4 * bits) << (32 - 4 * bits);
    w = (w & twos) | (w & twos << 2 * bits) << (16 - 2 * bits);
    return (w & ones) | (w & ones << bits) << (8 - bits);
}

/// Packs eight elements of one byte each to `bits` bits each. Ignores the padding bits of the bytes (R13).
[[nodiscard]] constexpr std::uint64_t gathered(std::uint64_t w, std::int64_t bits) noexcept {
    std::uint64_t const fours = low_bits(4 * bits), twos = low_bits(2 * bits) * 0x1'0000'0001,
                        ones = low_bits(bits) * 0x1'0001'0001'0001;
    w = (w & ones) | (w >> (8 - bits) & ones << bits);
    w = (w & twos) | (w >> (16 - 2 * bits) & twos << 2 * bits);
    return (w & fours) | (w >> (32 - 4 * bits) & fours << 4 * bits);
}

/// Unpacks a row of elements to one byte each.
inline void unpack_row(std::int64_t bits, std::int64_t count, std::byte* dst, std::byte const* src,
                       std::int64_t from) noexcept {
    std::int64_t i = 0;
    for (; (from & 7) + (count - i) * bits >= 64; i += 8, from += 8 * bits)
        store_word(dst + i, spread(load_word(src + (from >> 3)) >> (from & 7), bits));
    for (; i < count; ++i, from += bits) dst[i] = static_cast<std::byte>(load_bits(src, from, bits));
}

/// Packs a row of elements of one byte each.
inline void pack_row(std::int64_t bits, std::int64_t count, std::byte* dst, std::int64_t to,
                     std::byte const* src) noexcept {
    std::int64_t i = 0;
    // A word extends past its eight elements; the following store overwrites the excess.
    for (; (to & 7) == 0 && (count - i) * bits >= 64; i += 8, to += 8 * bits)
        store_word(dst + (to >> 3), gathered(load_word(src + i), bits));
    for (; count - i >= 8; i += 8, to += 8 * bits) store_bits(dst, to, 8 * bits, gathered(load_word(src + i), bits));
    for (; i < count; ++i, to += bits) store_bits(dst, to, bits, std::to_integer<std::uint64_t>(src[i]));
}

/// Executes loops whose distances are in bits, from bit 0 of the first element's byte.
inline void copy_bits(loop_nest const& nest, bit_unit unit, std::byte* dst, std::byte const* src) noexcept {
    plane const p{nest};
    bool const unpacks = unit.zeros != 0 && p.dst_column == 8 && p.src_column == unit.count;
    bool const packs = unit.count < 8 && p.dst_column == unit.count && p.src_column == 8;
    for_each_outer(nest, nest.rank > 0 ? 1 : 0, [&](std::int64_t to, std::int64_t from) noexcept {
        if (unpacks) return unpack_row(unit.count, p.columns, dst + to / 8, src, from);
        if (packs && from % 8 == 0) return pack_row(unit.count, p.columns, dst, to, src + from / 8);
        for (std::int64_t i = 0; i < p.columns; ++i)
            copy_bit_unit(unit, dst, to + i * p.dst_column, src, from + i * p.src_column);
    });
}

}  // namespace FERRY_NAMESPACE::detail
