// ferry: the strings of a descriptor.
#pragma once

#include <ferry/config.hpp>

#include <string_view>

namespace ferry::inline FERRY_ABI_NAMESPACE::wire::detail {

/// Whether a string is UTF-8 (RFC 3629: shortest forms, no surrogates) without a zero byte, which C strings cannot
/// hold.
[[nodiscard]] constexpr bool is_utf8(std::string_view text) noexcept {
    for (std::size_t i = 0; i < text.size();) {
        auto const byte = [&](std::size_t k) {
            return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u;
        };
        auto const follows = [&](std::size_t k) { return (byte(k) & 0xc0) == 0x80; };
        auto const first = byte(0), second = byte(1);
        if (first == 0) return false;
        if (first < 0x80) {
            i += 1;
        } else if (first >= 0xc2 && first <= 0xdf && follows(1)) {
            i += 2;
        } else if (first >= 0xe0 && first <= 0xef && follows(1) && follows(2)) {
            if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f)) return false;
            i += 3;
        } else if (first >= 0xf0 && first <= 0xf4 && follows(1) && follows(2) && follows(3)) {
            if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) return false;
            i += 4;
        } else {
            return false;
        }
    }
    return true;
}

/// Whether a string names a segment of POSIX shared memory and nothing else: a slash, then letters, digits, `.`, `_`
/// and `-`, the first of them no dot; at most 255 bytes.
[[nodiscard]] constexpr bool is_segment_name(std::string_view text) noexcept {
    if (text.size() < 2 || text.size() > 255 || text[0] != '/' || text[1] == '.') return false;
    for (char const c : text.substr(1)) {
        bool const letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '.' && c != '_' && c != '-') return false;
    }
    return true;
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::wire::detail
