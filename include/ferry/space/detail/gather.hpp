// ferry: copies of rows, and of strided, reversed or repeated units, which traverse both layouts in the same order.
#pragma once

#include <ferry/space/detail/odometer.hpp>
#include <ferry/space/detail/pieces.hpp>
#include <ferry/space/detail/simd.hpp>

namespace FERRY_NAMESPACE::detail {

/// Number of rows per pass for planes of short rows, which are copied column by column. Limits the memory that a pass
/// accesses.
inline constexpr std::int64_t rows_per_pass = 512;

/// Copies `count` units. The strides are integers or std::integral_constant.
template <class Piece, class DstStride, class SrcStride>
void copy_strided(Piece piece, std::int64_t count, std::byte* __restrict dst, DstStride dst_stride,
                  std::byte const* __restrict src, SrcStride src_stride) noexcept {
    for (std::int64_t i = 0; i < count; ++i) piece(dst + i * dst_stride, src + i * src_stride);
}

/// Fills a dense destination row with one unit (R29).
template <std::size_t Size>
void fill_row(std::int64_t count, std::byte* __restrict dst, std::byte const* __restrict src) noexcept {
    constexpr auto step = static_cast<std::int64_t>(Size);
    std::byte value[Size];
    std::memcpy(value, src, Size);
    if constexpr (Size == 1) {
        std::memset(dst, static_cast<int>(value[0]), static_cast<std::size_t>(count));
    } else {
        for (std::int64_t i = 0; i < count; ++i) std::memcpy(dst + i * step, value, Size);
    }
}

/// Copies a reversed source to a dense destination row (R28). `src` is the first unit to copy, which is the last in
/// memory.
template <std::size_t Size>
void reverse_row(std::int64_t count, std::byte* __restrict dst, std::byte const* __restrict src) noexcept {
    constexpr auto step = static_cast<std::int64_t>(Size);
    std::int64_t i = 0;
    if constexpr (Size < 16) {
        using simd = lanes<Size>;
        for (; i + simd::count <= count; i += simd::count)
            simd::store(dst + i * step, simd::reversed(simd::load(src - (i + simd::count - 1) * step)));
    }
    copy_strided(exact_piece<Size>{}, count - i, dst + i * step, step, src - i * step, -step);
}

/// Copies a row of units of any size.
template <class Piece>
void copy_row(Piece piece, plane const& p, std::byte* dst, std::byte const* src) noexcept {
    copy_strided(piece, p.columns, dst, p.dst_column, src, p.src_column);
}

/// Copies a row of units that fit in a register, with separate loops for dense destinations.
template <std::size_t Size>
void copy_row(exact_piece<Size> piece, plane const& p, std::byte* dst, std::byte const* src) noexcept {
    constexpr auto step = static_cast<std::int64_t>(Size);
    if (p.dst_column != step) return copy_strided(piece, p.columns, dst, p.dst_column, src, p.src_column);
    if (p.src_column == 0) return fill_row<Size>(p.columns, dst, src);
    if (p.src_column == -step) return reverse_row<Size>(p.columns, dst, src);
    copy_strided(piece, p.columns, dst, step, src, p.src_column);
}

template <class Piece>
void copy_plane(Piece piece, plane const& p, std::byte* dst, std::byte const* src) noexcept {
    if (p.columns < 8 && p.rows > p.columns) {
        for (std::int64_t first = 0; first < p.rows; first += rows_per_pass) {
            auto const rows = p.rows - first < rows_per_pass ? p.rows - first : rows_per_pass;
            for (std::int64_t c = 0; c < p.columns; ++c)
                copy_strided(piece, rows, dst + first * p.dst_row + c * p.dst_column, p.dst_row,
                             src + first * p.src_row + c * p.src_column, p.src_row);
        }
        return;
    }
    copy_row(piece, p, dst, src);
    auto const width = p.columns * static_cast<std::int64_t>(piece.size);
    bool const repeats = p.src_row == 0 && p.dst_column * p.columns == width;
    for (std::int64_t r = 1; r < p.rows; ++r) {
        if (repeats) {
            std::memcpy(dst + r * p.dst_row, dst, static_cast<std::size_t>(width));
        } else {
            copy_row(piece, p, dst + r * p.dst_row, src + r * p.src_row);
        }
    }
}

/// Executes loops over units of `unit` bytes, in the order of the destination.
inline void gather(loop_nest const& nest, std::int64_t unit, std::byte* dst, std::byte const* src) noexcept {
    auto* const copy = with_piece(unit, [](auto piece) noexcept -> plane_function* {
        return [](plane const& p, std::size_t size, std::byte* d, std::byte const* s) noexcept {
            copy_plane(decltype(piece){size}, p, d, s);
        };
    });
    for_each_plane(nest, plane{nest}, plane::dimensions(nest), static_cast<std::size_t>(unit), dst, src, copy);
}

}  // namespace FERRY_NAMESPACE::detail
