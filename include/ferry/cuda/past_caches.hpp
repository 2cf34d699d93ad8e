// ferry: a memcpy whose stores go past the caches.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ferry::inline v0::cuda::detail {

/// Copies `n` bytes that nobody reads soon. A store past the caches does not read its line first, which spares a third
/// of the traffic of host memory, the limit when several threads copy; on pages that the kernel has just zeroed it
/// loses, since they are in the cache. Never writes outside of [dst, dst + n). What it wrote is visible to devices and
/// other threads once they learn that it returned. Plain memcpy where the processor has no such stores.
inline void copy_past_caches(void* dst, void const* src, std::size_t n) noexcept {
#if defined(__SSE2__)
    constexpr std::size_t line = 64;
    if (n < 4 * line) {
        std::memcpy(dst, src, n);
        return;
    }
    auto* d = static_cast<std::byte*>(dst);
    auto const* s = static_cast<std::byte const*>(src);
    std::size_t const head = (line - reinterpret_cast<std::uintptr_t>(d) % line) % line;
    std::memcpy(d, s, head);
    d += head;
    s += head;
    n -= head;
    for (; n >= line; n -= line, d += line, s += line) {
        auto const* const from = reinterpret_cast<__m128i const*>(s);
        auto* const to = reinterpret_cast<__m128i*>(d);
        __m128i const a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2),
                      e = _mm_loadu_si128(from + 3);
        _mm_stream_si128(to, a);
        _mm_stream_si128(to + 1, b);
        _mm_stream_si128(to + 2, c);
        _mm_stream_si128(to + 3, e);
    }
    _mm_sfence();  // these stores are weakly ordered
    std::memcpy(d, s, n);
#else
    std::memcpy(dst, src, n);
#endif
}

}  // namespace ferry::inline v0::cuda::detail
