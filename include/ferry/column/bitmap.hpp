// ferry: bits in a row, as Arrow has them: the lowest bit of a byte comes first, and the first item may be any bit.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <cstdint>

namespace ferry::inline v0 {

/// `length` bits from bit `offset` of `data` on. Borrows. Null data stands for bits that are all 1: a validity without
/// nulls.
class bitmap_view {
   public:
    constexpr bitmap_view() = default;
    constexpr bitmap_view(void const* data, std::int64_t offset, std::int64_t length) noexcept
        : data_{static_cast<unsigned char const*>(data)}, offset_{offset}, length_{length} {}

    /// Not checked: `i` is in [0, length).
    [[nodiscard]] bool operator[](std::int64_t i) const noexcept {
        std::int64_t const bit = offset_ + i;
        return data_ == nullptr || (data_[bit >> 3] >> (bit & 7) & 1) != 0;
    }
    [[nodiscard]] constexpr unsigned char const* data() const noexcept { return data_; }
    [[nodiscard]] constexpr std::int64_t offset() const noexcept { return offset_; }
    [[nodiscard]] constexpr std::int64_t length() const noexcept { return length_; }
    [[nodiscard]] constexpr bool is_all_set() const noexcept { return data_ == nullptr; }
    [[nodiscard]] constexpr bitmap_view slice(std::int64_t begin, std::int64_t length) const noexcept {
        return {data_, offset_ + begin, length};
    }

   private:
    unsigned char const* data_ = nullptr;
    std::int64_t offset_ = 0, length_ = 0;
};

/// Bytes that hold so many bits.
[[nodiscard]] constexpr std::int64_t bitmap_bytes(std::int64_t bits) noexcept { return bits / 8 + (bits % 8 != 0); }

}  // namespace ferry::inline v0
