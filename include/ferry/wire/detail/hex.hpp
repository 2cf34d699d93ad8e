// ferry: bytes, UUIDs and integers as the strings of a JSON document.
#pragma once

#include <ferry/wire/descriptor.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>  // what is written is owned
#include <string_view>
#include <vector>  // as above

namespace ferry::inline FERRY_ABI_NAMESPACE::wire::detail {

[[nodiscard]] constexpr int hex_digit(char c) noexcept {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

[[nodiscard]] inline std::string to_hex(std::span<std::byte const> bytes) {
    std::string out;
    out.reserve(2 * bytes.size());
    for (auto const byte : bytes)
        for (auto const half : {std::to_integer<unsigned>(byte >> 4), std::to_integer<unsigned>(byte & std::byte{15})})
            out += "0123456789abcdef"[half];
    return out;
}

[[nodiscard]] inline bool from_hex(std::string_view text, std::vector<std::byte>& out) {
    if (text.size() % 2 != 0) return false;
    out.clear();
    out.reserve(text.size() / 2);
    for (std::size_t i = 0; i < text.size(); i += 2) {
        int const high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
        if (high < 0 || low < 0) return false;
        out.push_back(static_cast<std::byte>(16 * high + low));
    }
    return true;
}

/// "0a0b0c0d-0001-0203-0405-060708090a0b" (RFC 9562)
[[nodiscard]] inline std::string to_text(uuid const& u) {
    auto out = to_hex(std::as_bytes(std::span{u}));
    for (std::size_t const at : {8u, 13u, 18u, 23u}) out.insert(at, 1, '-');
    return out;
}

[[nodiscard]] inline bool from_text(std::string_view text, uuid& out) {
    if (text.size() != 36) return false;
    std::size_t at = 0;
    for (std::size_t i = 0; i < out.size(); ++i, at += 2) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            if (text[at++] != '-') return false;
        int const high = hex_digit(text[at]), low = hex_digit(text[at + 1]);
        if (high < 0 || low < 0) return false;
        out[i] = static_cast<std::uint8_t>(16 * high + low);
    }
    return true;
}

/// An integer in decimal digits: "0", or a sign and digits of which the first is not 0. False for anything else, and
/// for what does not fit.
template <std::integral T>
[[nodiscard]] constexpr bool from_decimal(std::string_view text, T& out) noexcept {
    bool const negative = std::is_signed_v<T> && text.starts_with('-');
    auto const digits = text.substr(negative ? 1 : 0);
    if (digits.empty() || (digits[0] == '0' && text.size() != 1)) return false;
    T value = 0;
    for (char const c : digits) {
        if (c < '0' || c > '9' || !ferry::detail::checked_multiply(value, T{10}, value)) return false;
        auto const digit = static_cast<T>(negative ? '0' - c : c - '0');
        if (!ferry::detail::checked_add(value, digit, value)) return false;
    }
    out = value;
    return true;
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::wire::detail
