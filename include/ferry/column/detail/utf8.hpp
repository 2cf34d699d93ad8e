// ferry: checks whether bytes are UTF-8.
#pragma once

#include <ferry/config.hpp>

#include <cstdint>
#include <cstring>

namespace FERRY_NAMESPACE::detail {

/// Returns whether `size` bytes are well-formed UTF-8, without overlong forms, surrogates or code points above U+10FFFF
/// (RFC 3629).
[[nodiscard]] inline bool is_utf8(unsigned char const* p, std::int64_t size) noexcept {
    auto const* const end = p + size;
    while (p != end) {
        if (end - p >= 8) {  // most text is ASCII
            std::uint64_t word = 0;
            std::memcpy(&word, p, 8);
            if ((word & 0x8080'8080'8080'8080u) == 0) {
                p += 8;
                continue;
            }
        }
        unsigned first = *p++;
        FERRY_KEEP_LOADED(first, r);  // this byte determines how many bytes are read
        if (first < 0x80) continue;
        int const more = first >= 0xc2 && first < 0xe0   ? 1
                         : first >= 0xe0 && first < 0xf0 ? 2
                         : first >= 0xf0 && first < 0xf5 ? 3
                                                         : 0;
        if (more == 0 || end - p < more) return false;
        unsigned const low = first == 0xe0 ? 0xa0u : first == 0xf0 ? 0x90u : 0x80u;
        unsigned const high = first == 0xed ? 0x9fu : first == 0xf4 ? 0x8fu : 0xbfu;
        if (*p < low || *p > high) return false;
        for (int i = 1; i < more; ++i)
            if ((p[i] & 0xc0u) != 0x80) return false;
        p += more;
    }
    return true;
}

}  // namespace FERRY_NAMESPACE::detail
