// ferry: bits of columns: counted, copied to where they begin anew, unpacked to bytes, packed from bytes.
#pragma once

#include <ferry/column/bitmap.hpp>
#include <ferry/space/detail/bits.hpp>
#include <ferry/space/detail/simd.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace FERRY_NAMESPACE::detail {

/// 128 bits that are added up side by side: with the instructions that every x86-64 and AArch64 has. The popcnt of
/// x86-64 is not among them, and a table of bytes is ten times slower.
class bit_counter {
    using lane = wide_word;  // `lane const` loses its size in nvcc, `auto const` does not

   public:
    /// Bytes of a step.
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
    /// A full adder for each bit: `sum` plus two more, and what is carried.
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
    /// The bits of each 64.
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

/// The bits that are 1. Reads no byte in which the bitmap has none.
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

/// Ones, from bit `at` on.
inline void set_bits(std::byte* to, std::int64_t at, std::int64_t count) noexcept {
    auto const unaligned = (8 - at % 8) % 8, head = unaligned < count ? unaligned : count, rest = (count - head) % 8;
    store_bits(to, at, head, ~std::uint64_t{0});
    std::memset(to + (at + head) / 8, 0xff, static_cast<std::size_t>((count - head) / 8));
    store_bits(to, at + count - rest, rest, ~std::uint64_t{0});
}

/// Writes the bits from bit `at` of `to` on: lower bits stay, and zeros follow up to the end of the last byte. The two
/// must not overlap.
inline void copy_bits(bitmap_view from, void* to, std::int64_t at = 0) noexcept {
    auto* const bytes = static_cast<std::byte*>(to);
    auto const end = at + from.length();
    if (from.is_all_set()) set_bits(bytes, at, from.length());
    else copy_bit_run(bytes, at, reinterpret_cast<std::byte const*>(from.data()), from.offset(), from.length());
    if (end % 8 != 0) store_bits(bytes, end, 8 - end % 8, 0);
}

/// A byte of 0 or 1 for each bit. For single bits a product is faster than the halving of unpack_row.
inline void unpack_bits(bitmap_view from, unsigned char* to) noexcept {
    auto const length = from.length();
    if (from.is_all_set()) {
        std::memset(to, 1, static_cast<std::size_t>(length));
        return;
    }
    auto const* const bytes = reinterpret_cast<std::byte const*>(from.data());
    std::int64_t i = 0;
    // Seven of the word's bytes, whatever bit they begin at.
    for (auto at = from.offset(); at % 8 + length - i >= 64; at += 56) {
        std::uint64_t bits = load_word(bytes + at / 8) >> at % 8;
        for (int byte = 0; byte < 7; ++byte, bits >>= 8, i += 8) {
            // Eight copies of the byte, of each its own bit, moved to the top by a sum that cannot carry, then down.
            std::uint64_t const own = (bits & 0xff) * 0x0101'0101'0101'0101u & 0x8040'2010'0804'0201u;
            std::uint64_t const flags = (own + 0x7f7f'7f7f'7f7f'7f7fu) >> 7 & 0x0101'0101'0101'0101u;
            std::memcpy(to + i, &flags, 8);
        }
    }
    for (; i < length; ++i) to[i] = from[i];
}

/// A bit for each byte, 1 when it is not 0, from bit 0 of `to` on; zeros up to the end of the last byte.
inline void pack_bits(unsigned char const* from, std::int64_t length, unsigned char* to) noexcept {
    std::int64_t i = 0;
    for (; length - i >= 8; i += 8) {
        std::uint64_t bytes = 0;
        std::memcpy(&bytes, from + i, 8);
        // The top bit of a byte says whether it is 0; the product brings the eight side by side into the top byte.
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
