// ferry: operations on 16-byte registers, which every x86-64 and AArch64 processor supports.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace FERRY_NAMESPACE::detail {

#if FERRY_HAS_GNU
/// A register of two words, or a word: operands of bitwise operators and shifts.
using wide_word [[gnu::vector_size(16)]] = std::uint64_t;

/// Permutes registers by literal indices; nvcc does not support shuffles whose indices are a parameter pack.
template <std::size_t Size>
struct shuffle;
template <>
struct shuffle<1> {
    using element = std::uint8_t;
    using type [[gnu::vector_size(16)]] = element;
    [[nodiscard]] FERRY_ALWAYS_INLINE static type reversed(type v) noexcept {
        return __builtin_shufflevector(v, v, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    }
    [[nodiscard]] FERRY_ALWAYS_INLINE static type low(type a, type b) noexcept {
        return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    }
    [[nodiscard]] FERRY_ALWAYS_INLINE static type high(type a, type b) noexcept {
        return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
};
template <>
struct shuffle<2> {
    using element = std::uint16_t;
    using type [[gnu::vector_size(16)]] = element;
    [[nodiscard]] FERRY_ALWAYS_INLINE static type reversed(type v) noexcept {
        return __builtin_shufflevector(v, v, 7, 6, 5, 4, 3, 2, 1, 0);
    }
    [[nodiscard]] FERRY_ALWAYS_INLINE static type low(type a, type b) noexcept {
        return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    }
    [[nodiscard]] FERRY_ALWAYS_INLINE static type high(type a, type b) noexcept {
        return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    }
};
template <>
struct shuffle<4> {
    using element = std::uint32_t;
    using type [[gnu::vector_size(16)]] = element;
    [[nodiscard]] FERRY_ALWAYS_INLINE static type reversed(type v) noexcept {
        return __builtin_shufflevector(v, v, 3, 2, 1, 0);
    }
    [[nodiscard]] FERRY_ALWAYS_INLINE static type low(type a, type b) noexcept {
        return __builtin_shufflevector(a, b, 0, 4, 1, 5);
    }
    [[nodiscard]] FERRY_ALWAYS_INLINE static type high(type a, type b) noexcept {
        return __builtin_shufflevector(a, b, 2, 6, 3, 7);
    }
};
template <>
struct shuffle<8> {
    using element = std::uint64_t;
    using type [[gnu::vector_size(16)]] = element;
    [[nodiscard]] FERRY_ALWAYS_INLINE static type reversed(type v) noexcept {
        return __builtin_shufflevector(v, v, 1, 0);
    }
    [[nodiscard]] FERRY_ALWAYS_INLINE static type low(type a, type b) noexcept {
        return __builtin_shufflevector(a, b, 0, 2);
    }
    [[nodiscard]] FERRY_ALWAYS_INLINE static type high(type a, type b) noexcept {
        return __builtin_shufflevector(a, b, 1, 3);
    }
};

#else
using wide_word = std::uint64_t;

/// The permutations of registers, element by element.
template <std::size_t Size>
struct shuffle {
    static constexpr std::size_t count = 16 / Size;
    struct element {
        std::byte bytes[Size];
    };
    struct type {
        element of[count];
    };
    [[nodiscard]] static type reversed(type v) noexcept {
        type r;
        for (std::size_t i = 0; i < count; ++i) r.of[i] = v.of[count - 1 - i];
        return r;
    }
    [[nodiscard]] static type low(type a, type b) noexcept { return interleaved(a, b, 0); }
    [[nodiscard]] static type high(type a, type b) noexcept { return interleaved(a, b, count / 2); }

   private:
    [[nodiscard]] static type interleaved(type const& a, type const& b, std::size_t first) noexcept {
        type r;
        for (std::size_t i = 0; i < count; ++i) r.of[i] = (i % 2 == 0 ? a : b).of[first + i / 2];
        return r;
    }
};
#endif

/// A register of 16 / `Size` elements.
template <std::size_t Size>
struct lanes {
    using type = typename shuffle<Size>::type;
    static constexpr int count = 16 / static_cast<int>(Size);

    [[nodiscard]] FERRY_ALWAYS_INLINE static type load(std::byte const* p) noexcept {
        type v;
        std::memcpy(&v, p, sizeof v);
        return v;
    }
    FERRY_ALWAYS_INLINE static void store(std::byte* p, type v) noexcept { std::memcpy(p, &v, sizeof v); }

    /// \return  the lanes of `v`, reversed
    [[nodiscard]] FERRY_ALWAYS_INLINE static type reversed(type v) noexcept { return shuffle<Size>::reversed(v); }
    /// \return  the lanes of the lower halves (upper halves, if `Upper`) of `a` and `b`, interleaved
    template <bool Upper>
    [[nodiscard]] FERRY_ALWAYS_INLINE static type interleaved(type a, type b) noexcept {
        if constexpr (Upper) return shuffle<Size>::high(a, b);
        else return shuffle<Size>::low(a, b);
    }
};

/// Transposes count × count elements in registers. `dst_row` and `src_row` are strides in bytes. Performs
/// log2(count) rounds, each of which interleaves the lower half of the rows with the upper half.
template <std::size_t Size>
FERRY_ALWAYS_INLINE void transpose_block(std::byte* dst, std::int64_t dst_row, std::byte const* src,
                                                   std::int64_t src_row) noexcept {
    using simd = lanes<Size>;
    constexpr int n = simd::count;
    constexpr std::size_t rows_of_block = n;
    typename simd::type rows[rows_of_block], next[rows_of_block];
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

}  // namespace FERRY_NAMESPACE::detail
