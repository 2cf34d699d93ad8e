// ferry: the few operations on 16-byte registers that reordering needs. Every x86-64 and every
// AArch64 has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace ferry::detail {

/// The unsigned integer of `Size` bytes; elements are moved, never computed with.
template <std::size_t Size>
struct word;
template <>
struct word<1> {
    using type = std::uint8_t;
};
template <>
struct word<2> {
    using type = std::uint16_t;
};
template <>
struct word<4> {
    using type = std::uint32_t;
};
template <>
struct word<8> {
    using type = std::uint64_t;
};

/// A register of 16 / `Size` elements.
template <std::size_t Size>
struct lanes {
    using element = typename word<Size>::type;
    using type [[gnu::vector_size(16)]] = element;
    static constexpr int count = 16 / static_cast<int>(Size);

    [[nodiscard, gnu::always_inline]] static type load(std::byte const* p) noexcept {
        type v;
        std::memcpy(&v, p, sizeof v);
        return v;
    }
    [[gnu::always_inline]] static void store(std::byte* p, type v) noexcept {
        std::memcpy(p, &v, sizeof v);
    }

    /// The lanes of `v`, last first.
    [[nodiscard, gnu::always_inline]] static type reversed(type v) noexcept {
        return [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
            return __builtin_shufflevector(v, v, (count - 1 - I)...);
        }(std::make_integer_sequence<int, count>{});
    }
    /// The lanes of the lower halves of `a` and `b`, by turns; those of the upper halves with
    /// `Upper`.
    template <bool Upper>
    [[nodiscard, gnu::always_inline]] static type interleaved(type a, type b) noexcept {
        return [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
            return __builtin_shufflevector(a, b,
                                           (I / 2 + I % 2 * count + (Upper ? count / 2 : 0))...);
        }(std::make_integer_sequence<int, count>{});
    }
};

/// Transposes count × count elements in registers: row i of the destination is column i of the
/// source. Row strides are in bytes. log2(count) rounds, each of which interleaves the upper half
/// of the rows with the lower one.
template <std::size_t Size>
[[gnu::always_inline]] inline void transpose_block(std::byte* dst, std::int64_t dst_row,
                                                   std::byte const* src,
                                                   std::int64_t src_row) noexcept {
    using simd = lanes<Size>;
    constexpr int n = simd::count;
    typename simd::type rows[n], next[n];
    for (int i = 0; i < n; ++i) rows[i] = simd::load(src + i * src_row);
    for (int round = 1; round < n; round *= 2) {
        for (int i = 0; i < n / 2; ++i) {
            next[2 * i] = simd::template interleaved<false>(rows[i], rows[i + n / 2]);
            next[2 * i + 1] = simd::template interleaved<true>(rows[i], rows[i + n / 2]);
        }
        for (int i = 0; i < n; ++i) rows[i] = next[i];
    }
    for (int i = 0; i < n; ++i) simd::store(dst + i * dst_row, rows[i]);
}

}  // namespace ferry::detail
