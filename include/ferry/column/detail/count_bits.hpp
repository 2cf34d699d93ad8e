// ferry: counts the bits that are set.
#pragma once

#include <ferry/column/bitmap.hpp>

#include <bit>
#include <cstdint>
#include <cstring>

namespace ferry::detail {

/// The bits that are 1. Reads no byte in which the bitmap has none.
[[nodiscard]] inline std::int64_t count_set(bitmap_view bits) noexcept {
    std::int64_t const length = bits.length();
    if (bits.is_all_set()) return length;
    std::int64_t count = 0, i = 0;
    for (; i < length && (bits.offset() + i) % 8 != 0; ++i) count += bits[i];
    auto const* p = bits.data() + (bits.offset() + i) / 8;
    for (; length - i >= 64; i += 64, p += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, p, 8);
        count += std::popcount(word);
    }
    for (; i < length; ++i) count += bits[i];
    return count;
}

}  // namespace ferry::detail
