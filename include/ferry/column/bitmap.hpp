// ferry: bitmaps in Arrow's layout, in which the lowest bit of a byte is the first item.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE {

/// A non-owning view of bits. If the data is null, all bits are 1, as in a validity without nulls.
class bitmap_view {
   public:
    constexpr bitmap_view() = default;
    /// \param data    bytes of the bitmap; null for bits that are all 1
    /// \param offset  index of the first bit
    /// \param length  number of bits
    constexpr bitmap_view(void const* data, std::int64_t offset, std::int64_t length) noexcept
        : data_{static_cast<unsigned char const*>(data)}, offset_{offset}, length_{length} {}

    /// \param i  index in [0, length()); not checked
    [[nodiscard]] bool operator[](std::int64_t i) const noexcept {
        std::int64_t const bit = offset_ + i;
        return data_ == nullptr || (data_[bit >> 3] >> (bit & 7) & 1) != 0;
    }
    [[nodiscard]] constexpr unsigned char const* data() const noexcept { return data_; }
    [[nodiscard]] constexpr std::int64_t offset() const noexcept { return offset_; }
    [[nodiscard]] constexpr std::int64_t length() const noexcept { return length_; }
    [[nodiscard]] constexpr bool is_all_set() const noexcept { return data_ == nullptr; }
    /// \param begin   index of the first bit; not checked
    /// \param length  number of bits; not checked
    [[nodiscard]] constexpr bitmap_view slice(std::int64_t begin, std::int64_t length) const noexcept {
        return {data_, offset_ + begin, length};
    }

   private:
    unsigned char const* data_ = nullptr;
    std::int64_t offset_ = 0, length_ = 0;
};

/// Returns the number of bytes of a bitmap.
///
/// \param bits  number of bits
[[nodiscard]] constexpr std::int64_t bitmap_bytes(std::int64_t bits) noexcept { return bits / 8 + (bits % 8 != 0); }

}  // namespace FERRY_NAMESPACE
