// ferry: value types for decimals and intervals.
#pragma once

#include <ferry/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace ferry::inline FERRY_ABI_NAMESPACE {

/// An integer of 32, 64, 128 or 256 bits, as a decimal is stored: two's complement, little-endian; the value is it
/// times 10^-scale, and the scale is the column's (column_type::scale).
template <int Bits>
    requires(Bits == 32 || Bits == 64 || Bits == 128 || Bits == 256)
struct decimal {
    std::array<std::byte, std::size_t{Bits} / 8> bytes{};

    [[nodiscard]] constexpr bool is_negative() const noexcept {
        return (bytes.back() & std::byte{0x80}) != std::byte{0};
    }
    /// The low 64 bits, sign-extended when there are fewer.
    [[nodiscard]] constexpr std::int64_t low() const noexcept {
        std::uint64_t word = is_negative() ? ~std::uint64_t{0} : 0;
        std::size_t const n = Bits / 8 < 8 ? Bits / 8 : 8;
        for (std::size_t i = n; i-- > 0;) word = word << 8 | std::to_integer<std::uint64_t>(bytes[i]);
        return static_cast<std::int64_t>(word);
    }

    friend constexpr bool operator==(decimal const&, decimal const&) = default;
};

/// An interval of days and milliseconds.
struct day_time {
    std::int32_t days = 0, milliseconds = 0;

    friend constexpr bool operator==(day_time const&, day_time const&) = default;
};

/// An interval of months, days and nanoseconds, none of which carries into another.
struct month_day_nano {
    std::int32_t months = 0, days = 0;
    std::int64_t nanoseconds = 0;

    friend constexpr bool operator==(month_day_nano const&, month_day_nano const&) = default;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE
