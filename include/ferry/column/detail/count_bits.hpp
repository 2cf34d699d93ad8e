// ferry: counts the bits that are set, at the speed of memory.
#pragma once

#include <ferry/column/bitmap.hpp>
#include <ferry/space/detail/simd.hpp>

#include <bit>
#include <cstdint>
#include <cstring>

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

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

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
