// ferry: bytes, UUIDs and integers as text.
#pragma once

#include <ferry/wire/descriptor.hpp>

#include <charconv>
#include <concepts>
#include <span>
#include <string_view>
#include <system_error>

namespace FERRY_NAMESPACE::wire::detail {

[[nodiscard]] inline std::string to_hex(std::span<std::byte const> bytes) {
    std::string out;
    out.reserve(2 * bytes.size());
    for (auto const byte : bytes)
        for (auto const half : {byte >> 4, byte & std::byte{15}}) out += "0123456789abcdef"[std::to_integer<int>(half)];
    return out;
}

/// Removes two hexadecimal digits from the front of a text. Returns false for other characters.
template <class Byte>
[[nodiscard]] bool take_byte(std::string_view& text, Byte& out) noexcept {
    std::uint8_t value = 0;
    if (text.size() < 2 || std::from_chars(text.data(), text.data() + 2, value, 16).ptr != text.data() + 2)
        return false;
    text.remove_prefix(2);
    out = Byte{value};
    return true;
}

/// Returns "0a0b0c0d-0001-0203-0405-060708090a0b", for example (RFC 9562).
[[nodiscard]] inline std::string to_text(uuid const& u) {
    auto out = to_hex(std::as_bytes(std::span{u}));
    for (std::size_t const at : {8u, 13u, 18u, 23u}) out.insert(at, 1, '-');
    return out;
}

[[nodiscard]] inline bool from_text(std::string_view text, uuid& out) noexcept {
    for (std::size_t i = 0; i < out.size(); ++i) {
        bool const has_dash = i == 4 || i == 6 || i == 8 || i == 10;
        if (has_dash && !text.starts_with('-')) return false;
        text.remove_prefix(has_dash);
        if (!take_byte(text, out[i])) return false;
    }
    return text.empty();
}

/// Parses decimal digits without leading zeros, after a `-` if the value is negative. Returns false for other text, and
/// for values that do not fit.
template <std::integral T>
[[nodiscard]] bool from_decimal(std::string_view text, T& out) noexcept {
    if (text.starts_with("-0") || (text.starts_with('0') && text.size() != 1)) return false;
    auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
    return code == std::errc{} && end == text.data() + text.size();
}

}  // namespace FERRY_NAMESPACE::wire::detail
