// ferry: counts, copies, packs and unpacks the bits of columns.
#pragma once

#include <ferry/column/bitmap.hpp>
#include <ferry/space/detail/bits.hpp>
#include <ferry/space/detail/simd.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace FERRY_NAMESPACE::detail {

/// Counts bits with vectors of 128 bits, for which every x86-64 and AArch64 processor has instructions. Not every
/// x86-64 processor has popcnt, and a look-up table of bytes is ten times slower.
class bit_counter {
    using lane = wide_word;  // `lane const` loses its size in nvcc, `auto const` does not

   public:
    /// Number of bytes that a call of `add` counts.
    static constexpr std::int64_t step = 16 * sizeof(lane);

    void add(unsigned char const* p) noexcept {
        auto const eights = add_eight(p), more = add_eight(p + step / 2);
        auto const carry = add_two(eights_, eights, more);
        sixteens_ += ones_of(carry);
    }
    [[nodiscard]] std::int64_t total() const noexcept {
        auto const sum =
            sixteens_ * 16 + ones_of(eights_) * 8 + ones_of(fours_) * 4 + ones_of(twos_) * 2 + ones_of(units_);
        std::int64_t halves[sizeof sum / 8], total = 0;
        std::memcpy(halves, &sum, sizeof sum);
        for (auto const half : halves) total += half;
        return total;
    }

   private:
    static constexpr std::int64_t size = sizeof(lane);

    [[nodiscard]] static lane load(unsigned char const* p) noexcept {
        lane l;
        std::memcpy(&l, p, sizeof l);
        return l;
    }
    /// Adds two bits to `sum` in each position, as full adders do, and returns the carries.
    [[nodiscard]] static lane add_two(lane& sum, lane b, lane c) noexcept {
        auto const a = sum, either = a ^ b;
        sum = either ^ c;
        return (a & b) | (either & c);
    }
    [[nodiscard]] lane add_four(unsigned char const* p) noexcept {
        auto const a = add_two(units_, load(p), load(p + size));
        auto const b = add_two(units_, load(p + 2 * size), load(p + 3 * size));
        return add_two(twos_, a, b);
    }
    [[nodiscard]] lane add_eight(unsigned char const* p) noexcept {
        lane const a = add_four(p), b = add_four(p + 4 * size);
        return add_two(fours_, a, b);
    }
    /// Returns the number of bits in each word of 64 bits.
    [[nodiscard]] static lane ones_of(lane x) noexcept {
        x -= x >> 1 & 0x5555'5555'5555'5555u;
        x = (x & 0x3333'3333'3333'3333u) + (x >> 2 & 0x3333'3333'3333'3333u);
        x = (x + (x >> 4)) & 0x0f0f'0f0f'0f0f'0f0fu;
        x += x >> 8;
        x += x >> 16;
        return (x + (x >> 32)) & 0x7fu;
    }

    lane units_{}, twos_{}, fours_{}, eights_{}, sixteens_{};
};

/// Returns the number of bits that are 1. Reads only bytes that contain bits of the bitmap.
[[nodiscard]] inline std::int64_t count_set(bitmap_view bits) noexcept {
    std::int64_t const length = bits.length();
    if (bits.is_all_set()) return length;
    std::int64_t count = 0, i = 0;
    for (; i < length && (bits.offset() + i) % 8 != 0; ++i) count += bits[i];
    auto const* p = bits.data() + (bits.offset() + i) / 8;
    if (length - i >= 8 * bit_counter::step) {
        bit_counter counter;
        for (; length - i >= 8 * bit_counter::step; i += 8 * bit_counter::step, p += bit_counter::step) counter.add(p);
        count += counter.total();
    }
    for (; length - i >= 64; i += 64, p += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, p, 8);
        count += std::popcount(word);
    }
    for (; i < length; ++i) count += bits[i];
    return count;
}

/// Sets `count` bits to 1, from bit `at` on.
inline void set_bits(std::byte* to, std::int64_t at, std::int64_t count) noexcept {
    auto const unaligned = (8 - at % 8) % 8, head = unaligned < count ? unaligned : count, rest = (count - head) % 8;
    store_bits(to, at, head, ~std::uint64_t{0});
    std::memset(to + (at + head) / 8, 0xff, static_cast<std::size_t>((count - head) / 8));
    store_bits(to, at + count - rest, rest, ~std::uint64_t{0});
}

/// Copies bits to `to`, from bit `at` on. Keeps the lower bits, and writes zeros up to the end of the last byte. Source
/// and destination must not overlap.
inline void copy_bits(bitmap_view from, void* to, std::int64_t at = 0) noexcept {
    auto* const bytes = static_cast<std::byte*>(to);
    auto const end = at + from.length();
    if (from.is_all_set()) set_bits(bytes, at, from.length());
    else copy_bit_run(bytes, at, reinterpret_cast<std::byte const*>(from.data()), from.offset(), from.length());
    if (end % 8 != 0) store_bits(bytes, end, 8 - end % 8, 0);
}

/// Writes a byte of 0 or 1 for each bit. Uses a multiplication, which is faster for single bits than unpack_row.
inline void unpack_bits(bitmap_view from, unsigned char* to) noexcept {
    auto const length = from.length();
    if (from.is_all_set()) {
        std::memset(to, 1, static_cast<std::size_t>(length));
        return;
    }
    auto const* const bytes = reinterpret_cast<std::byte const*>(from.data());
    std::int64_t i = 0;
    // Each word contains seven complete groups of eight bits, whatever bit the first begins at.
    for (auto at = from.offset(); at % 8 + length - i >= 64; at += 56) {
        std::uint64_t bits = load_word(bytes + at / 8) >> at % 8;
        for (int byte = 0; byte < 7; ++byte, bits >>= 8, i += 8) {
            // Copies the byte eight times and keeps another bit in each copy. The sum moves it to the top bit without a
            // carry into the next byte; the shift moves it to the lowest bit.
            std::uint64_t const own = (bits & 0xff) * 0x0101'0101'0101'0101u & 0x8040'2010'0804'0201u;
            std::uint64_t const flags = (own + 0x7f7f'7f7f'7f7f'7f7fu) >> 7 & 0x0101'0101'0101'0101u;
            std::memcpy(to + i, &flags, 8);
        }
    }
    for (; i < length; ++i) to[i] = from[i];
}

/// Writes a bit for each byte, 1 if the byte is not 0, from bit 0 of `to` on. Writes zeros up to the end of the last
/// byte.
inline void pack_bits(unsigned char const* from, std::int64_t length, unsigned char* to) noexcept {
    std::int64_t i = 0;
    for (; length - i >= 8; i += 8) {
        std::uint64_t bytes = 0;
        std::memcpy(&bytes, from + i, 8);
        // Sets the lowest bit of each byte that is not 0; the product moves the eight bits into the top byte.
        std::uint64_t const is_set =
            (((bytes & 0x7f7f'7f7f'7f7f'7f7fu) + 0x7f7f'7f7f'7f7f'7f7fu) | bytes) >> 7 & 0x0101'0101'0101'0101u;
        to[i / 8] = static_cast<unsigned char>(is_set * 0x0102'0408'1020'4080u >> 56);
    }
    if (i == length) return;
    unsigned last = 0;
    for (std::int64_t k = i; k < length; ++k) last |= unsigned{from[k] != 0} << (k - i);
    to[i / 8] = static_cast<unsigned char>(last);
}

}  // namespace FERRY_NAMESPACE::detail
