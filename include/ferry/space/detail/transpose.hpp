// ferry: copies in which source and destination are dense along different dimensions, by tiles of a
// cache line each way.
#pragma once

#include <ferry/space/detail/gather.hpp>
#include <ferry/space/detail/odometer.hpp>
#include <ferry/space/detail/pieces.hpp>
#include <ferry/space/detail/simd.hpp>
#include <ferry/space/loop_nest.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace ferry::inline v0::detail {

/// One line of the destination by one line of the source. Goes through a buffer, so that each line
/// of either is touched once: rows a power of two apart share a cache set and would evict each
/// other.
template <std::size_t Size>
void transpose_tile(std::byte* dst, std::int64_t dst_row, std::byte const* src, std::int64_t src_column) noexcept {
    constexpr std::int64_t line = 64, size = Size, count = line / size, block = 16 / size;
    alignas(64) std::byte buffer[count * line];
    for (std::int64_t c = 0; c < count; c += block)
        for (std::int64_t r = 0; r < count; r += block) {
            auto* const to = buffer + r * line + c * size;
            auto const* const from = src + c * src_column + r * size;
            if constexpr (Size == 16) {
                std::memcpy(to, from, 16);
            } else {
                transpose_block<Size>(to, line, from, src_column);
            }
        }
    for (std::int64_t r = 0; r < count; ++r) std::memcpy(dst + r * dst_row, buffer + r * line, line);
}

/// A plane of any size, by units: for edges, and where no registers fit. The longer side makes the
/// inner loop.
template <class Piece>
void transpose_units(Piece piece, plane const& p, std::byte* dst, std::byte const* src) noexcept {
    if (p.rows > p.columns) {
        for (std::int64_t c = 0; c < p.columns; ++c)
            copy_strided(piece, p.rows, dst + c * p.dst_column, p.dst_row, src + c * p.src_column, p.src_row);
    } else {
        for (std::int64_t r = 0; r < p.rows; ++r)
            copy_strided(piece, p.columns, dst + r * p.dst_row, p.dst_column, src + r * p.src_row, p.src_column);
    }
}

/// Calls `body` with the stride, as a constant where it is that of a few units: planes of pixels and
/// pairs, whose loops then are up to ten times as fast.
template <std::int64_t Size, class Body>
void with_stride(std::int64_t stride, Body const& body) noexcept {
    switch (stride) {
        case Size: return body(std::integral_constant<std::int64_t, Size>{});
        case 2 * Size: return body(std::integral_constant<std::int64_t, 2 * Size>{});
        case 3 * Size: return body(std::integral_constant<std::int64_t, 3 * Size>{});
        case 4 * Size: return body(std::integral_constant<std::int64_t, 4 * Size>{});
        default: return body(stride);
    }
}

/// The same for units that fit a register: dense along the inner loop on one side, as transposes are.
template <std::size_t Size>
void transpose_units(exact_piece<Size> piece, plane const& p, std::byte* dst, std::byte const* src) noexcept {
    constexpr auto size = static_cast<std::int64_t>(Size);
    constexpr std::integral_constant<std::int64_t, size> dense{};
    // GCC gathers every third of four bytes by shuffles that cost more than they save.
    bool const shuffles = Size == 4 && p.src_column == 3 * size;
    if (p.rows > p.columns && p.src_row == size) {
        with_stride<size>(p.dst_row, [&](auto stride) noexcept {
            for (std::int64_t c = 0; c < p.columns; ++c)
                copy_strided(piece, p.rows, dst + c * p.dst_column, stride, src + c * p.src_column, dense);
        });
    } else if (p.rows <= p.columns && p.dst_column == size && !shuffles) {
        with_stride<size>(p.src_column, [&](auto stride) noexcept {
            for (std::int64_t r = 0; r < p.rows; ++r)
                copy_strided(piece, p.columns, dst + r * p.dst_row, dense, src + r * p.src_row, stride);
        });
    } else {
        transpose_units<exact_piece<Size>>(piece, p, dst, src);
    }
}

/// A part of a plane that knows how far the plane goes on below it.
struct plane_part : plane {
    std::int64_t rows_below;
};

/// Cuts a plane into parts of at most `rows` × `columns` and calls `body(part, dst, src)` with
/// each.
template <class Body>
void for_each_part(plane const& p, std::int64_t rows, std::int64_t columns, std::byte* dst, std::byte const* src,
                   Body const& body) noexcept {
    // Rows of the destination tend to lie in pages of their own: a band has no more of them than
    // address translation remembers.
    std::int64_t const band = rows > rows_per_pass ? rows : rows_per_pass / rows * rows;
    auto const least = [](std::int64_t a, std::int64_t b) noexcept { return a < b ? a : b; };
    for (std::int64_t first = 0; first < p.rows; first += band)
        for (std::int64_t c = 0; c < p.columns; c += columns)
            for (std::int64_t r = first; r < least(first + band, p.rows); r += rows) {
                plane_part part{p, 0};
                part.rows = least(rows, p.rows - r);
                part.rows_below = p.rows - r - part.rows;
                part.columns = least(columns, p.columns - c);
                body(part, dst + r * p.dst_row + c * p.dst_column, src + r * p.src_row + c * p.src_column);
            }
}

/// A plane whose rows are dense in the destination and whose columns are dense in the source.
template <std::size_t Size>
void transpose_dense(plane const& p, std::byte* dst, std::byte const* src) noexcept {
    constexpr std::int64_t tile = 64 / Size, block = 16 / Size;
    for_each_part(p, tile, tile, dst, src, [&](plane_part const& part, std::byte* d, std::byte const* s) noexcept {
        if (part.rows == tile && part.columns == tile) {
            // The next tile of the column arrives while this one moves.
            for (std::int64_t i = 0; i < tile && part.rows_below >= tile; ++i) {
                __builtin_prefetch(d + (tile + i) * p.dst_row, 1);
                __builtin_prefetch(s + i * p.src_column + 64, 0);
            }
            return transpose_tile<Size>(d, p.dst_row, s, p.src_column);
        }
        if constexpr (block > 1) {
            for_each_part(part, block, block, d, s,
                          [&](plane_part const& q, std::byte* to, std::byte const* from) noexcept {
                              if (q.rows == block && q.columns == block)
                                  return transpose_block<Size>(to, q.dst_row, from, q.src_column);
                              transpose_units(exact_piece<Size>{}, q, to, from);
                          });
        } else {
            transpose_units(exact_piece<Size>{}, part, d, s);
        }
    });
}

template <class Piece>
void transpose_plane(Piece piece, plane const& p, std::byte* dst, std::byte const* src) noexcept {
    // A line of units each way; when one side has fewer, the other takes as many more.
    auto const tile = static_cast<std::int64_t>(64 / piece.size > 4 ? 64 / piece.size : 4);
    auto const rows = p.columns < tile ? tile * tile / p.columns : tile;
    auto const columns = p.rows < tile ? tile * tile / p.rows : tile;
    for_each_part(p, rows, columns, dst, src, [&](plane_part const& part, std::byte* d, std::byte const* s) noexcept {
        transpose_units(piece, part, d, s);
    });
}

template <std::size_t Size>
void transpose_plane(exact_piece<Size> piece, plane const& p, std::byte* dst, std::byte const* src) noexcept {
    constexpr std::int64_t size = Size, block = 16 / size, line = 64;
    if (p.dst_column != size || p.src_row != size || p.rows < block || p.columns < block)
        return transpose_plane<exact_piece<Size>>(piece, p, dst, src);
    // Lines that are written in two parts leave the cache between them and cost several times as
    // much, so tiles begin with a line of the destination where the same column does in every row.
    auto const to_line = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(dst) % line);
    plane head{p}, rest{p};
    head.columns = p.dst_row % line == 0 && to_line % size == 0 ? to_line / size : 0;
    rest.columns -= head.columns;
    if (head.columns == 0 || rest.columns < block) return transpose_dense<Size>(p, dst, src);
    transpose_plane<exact_piece<Size>>(piece, head, dst, src);
    transpose_dense<Size>(rest, dst + to_line, src + head.columns * p.src_column);
}

/// Executes a transpose plan over units of `unit` bytes: the source is fastest along dimension rank
/// − 2, the destination along rank − 1.
inline void transpose(loop_nest const& nest, std::int64_t unit, std::byte* dst, std::byte const* src) noexcept {
    plane inner{nest};
    if (inner.src_row < 0) {  // R28: dense backwards is dense forwards from the other end
        dst += (inner.rows - 1) * inner.dst_row;
        src += (inner.rows - 1) * inner.src_row;
        inner.dst_row = -inner.dst_row;
        inner.src_row = -inner.src_row;
    }
    with_piece(unit, [&](auto piece) noexcept {
        for_each_outer(
            nest, 2, [&](std::int64_t d, std::int64_t s) noexcept { transpose_plane(piece, inner, dst + d, src + s); });
    });
}

}  // namespace ferry::inline v0::detail
