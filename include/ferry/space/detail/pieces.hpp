// ferry: copies of one unit, specialised by its size.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace FERRY_NAMESPACE::detail {

/// Copies `Size` bytes through one register. Loads and stores are memcpy, which requires no alignment (R31).
template <std::size_t Size>
struct exact_piece {
    static constexpr std::size_t size = Size;
    constexpr explicit exact_piece(std::size_t = Size) noexcept {}
    void operator()(std::byte* __restrict dst, std::byte const* __restrict src) const noexcept {
        std::memcpy(dst, src, Size);
    }
};

/// Copies at least `Half` and at most 2 · `Half` bytes with two moves, which overlap for fewer than 2 · `Half` bytes.
template <std::size_t Half>
struct overlapped_piece {
    std::size_t size;
    void operator()(std::byte* __restrict dst, std::byte const* __restrict src) const noexcept {
        std::byte head[Half], tail[Half];
        std::memcpy(head, src, Half);
        std::memcpy(tail, src + size - Half, Half);
        std::memcpy(dst, head, Half);
        std::memcpy(dst + size - Half, tail, Half);
    }
};

/// Copies any number of bytes.
struct long_piece {
    std::size_t size;
    void operator()(std::byte* __restrict dst, std::byte const* __restrict src) const noexcept {
        std::memcpy(dst, src, size);
    }
};

/// Calls `body` with the function object that copies `size` bytes, and returns its result.
template <class Body>
auto with_piece(std::int64_t size, Body const& body) noexcept {
    auto const n = static_cast<std::size_t>(size);
    switch (n) {
        case 1: return body(exact_piece<1>{});
        case 2: return body(exact_piece<2>{});
        case 4: return body(exact_piece<4>{});
        case 8: return body(exact_piece<8>{});
        case 16: return body(exact_piece<16>{});
        default: break;
    }
    if (n < 4) return body(overlapped_piece<2>{n});
    if (n < 8) return body(overlapped_piece<4>{n});
    if (n < 16) return body(overlapped_piece<8>{n});
    if (n <= 32) return body(overlapped_piece<16>{n});
    return body(long_piece{n});
}

}  // namespace FERRY_NAMESPACE::detail
