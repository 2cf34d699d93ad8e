// ferry: memcpy with non-temporal stores.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace FERRY_NAMESPACE::cuda::detail {

#if defined(__SSE2__)
/// Copies 64 bytes; `to` is aligned to 16.
inline void store_line(std::byte* to, std::byte const* from) noexcept {
    auto const* const s = reinterpret_cast<__m128i const*>(from);
    auto* const d = reinterpret_cast<__m128i*>(to);
    __m128i const a = _mm_loadu_si128(s), b = _mm_loadu_si128(s + 1), c = _mm_loadu_si128(s + 2),
                  e = _mm_loadu_si128(s + 3);
    _mm_stream_si128(d, a);
    _mm_stream_si128(d + 1, b);
    _mm_stream_si128(d + 2, c);
    _mm_stream_si128(d + 3, e);
}
#endif

/// Copies `n` bytes that will not be read soon. A non-temporal store does not read its cache line first, so that a
/// copied line causes two memory accesses instead of three; memory traffic limits the bandwidth when several threads
/// copy. Such stores are slower on pages that the operating system has just zeroed, which are in the cache. Writes
/// nothing outside [dst, dst + n). The writes are visible to devices and to threads synchronised with the return of the
/// function. Calls memcpy on processors without such stores.
inline void copy_non_temporal(void* dst, void const* src, std::size_t n) noexcept {
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
    // Alternates between four pages, so that four sequential reads are in progress.
    constexpr std::size_t page = 4096, pages = 4;
    for (; n >= pages * page; n -= pages * page, d += pages * page, s += pages * page)
        for (std::size_t at = 0; at < page; at += line)
            for (std::size_t p = 0; p < pages; ++p) store_line(d + p * page + at, s + p * page + at);
    for (; n >= line; n -= line, d += line, s += line) store_line(d, s);
    _mm_sfence();  // these stores are weakly ordered
    std::memcpy(d, s, n);
#else
    std::memcpy(dst, src, n);
#endif
}

}  // namespace FERRY_NAMESPACE::cuda::detail
