// ferry: copies whose source and destination are dense along different dimensions, in tiles of one cache line per side.
#pragma once

#include <ferry/space/detail/gather.hpp>

namespace FERRY_NAMESPACE::detail {

/// Transposes a tile of one cache line by one cache line through a buffer, so that each line is accessed once. Rows
/// whose stride is a power of two map to the same cache set, and would otherwise evict each other.
template <std::size_t Size>
void transpose_tile(std::byte* dst, std::int64_t dst_row, std::byte const* src, std::int64_t src_column) noexcept {
    constexpr std::int64_t line = 64, size = Size, count = line / size, block = 16 / size;
    alignas(64) std::byte buffer[static_cast<std::size_t>(count * line)];
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

/// Transposes a plane of any size unit by unit. Used at edges, and for units that do not fit in a register. The inner
/// loop is over the longer side.
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

/// Calls `body` with the stride, as a constant when it is 1 to 4 units (pixels, pairs), so that the compiler can
/// optimise the loop.
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

/// Overload for units that fit in a register; one side is dense along the inner loop.
template <std::size_t Size>
void transpose_units(exact_piece<Size> piece, plane const& p, std::byte* dst, std::byte const* src) noexcept {
    constexpr auto size = static_cast<std::int64_t>(Size);
    constexpr std::integral_constant<std::int64_t, size> dense{};
    // GCC vectorises a stride of three units of four bytes with shuffles that are slower than scalar code.
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

/// A part of a plane, with the number of rows of the plane below it.
struct plane_part : plane {
    std::int64_t rows_below;
};
using part_function = void(plane_part const& part, std::size_t unit, std::byte* dst, std::byte const* src) noexcept;

/// Divides a plane into parts of at most `rows` × `columns` and calls `body` for each.
FERRY_NOINLINE inline void for_each_part(plane const& p, std::int64_t rows, std::int64_t columns, std::size_t unit,
                                         std::byte* dst, std::byte const* src, part_function* body) noexcept {
    // Rows of the destination are often in different pages, so bands of limited height reduce TLB misses.
    std::int64_t const band = rows > rows_per_pass ? rows : rows_per_pass / rows * rows;
    auto const least = [](std::int64_t a, std::int64_t b) noexcept { return a < b ? a : b; };
    for (std::int64_t first = 0; first < p.rows; first += band)
        for (std::int64_t c = 0; c < p.columns; c += columns)
            for (std::int64_t r = first; r < least(first + band, p.rows); r += rows) {
                plane_part part{p, 0};
                part.rows = least(rows, p.rows - r);
                part.rows_below = p.rows - r - part.rows;
                part.columns = least(columns, p.columns - c);
                body(part, unit, dst + r * p.dst_row + c * p.dst_column, src + r * p.src_row + c * p.src_column);
            }
}

/// Transposes a plane whose rows are dense in the destination and whose columns are dense in the source.
template <std::size_t Size>
void transpose_dense(plane const& p, std::byte* dst, std::byte const* src) noexcept {
    constexpr std::int64_t tile = 64 / Size, block = 16 / Size;
    constexpr part_function* copy_tile = [](plane_part const& part, std::size_t, std::byte* d,
                                            std::byte const* s) noexcept {
        if (part.rows == tile && part.columns == tile) {
            // Prefetches the next tile of the column during the copy of this one.
            for (std::int64_t i = 0; i < tile && part.rows_below >= tile; ++i) {
                FERRY_PREFETCH(d + (tile + i) * part.dst_row, 1);
                FERRY_PREFETCH(s + i * part.src_column + 64, 0);
            }
            return transpose_tile<Size>(d, part.dst_row, s, part.src_column);
        }
        if constexpr (block > 1) {
            for_each_part(part, block, block, Size, d, s,
                          [](plane_part const& q, std::size_t, std::byte* to, std::byte const* from) noexcept {
                              if (q.rows == block && q.columns == block)
                                  return transpose_block<Size>(to, q.dst_row, from, q.src_column);
                              transpose_units(exact_piece<Size>{}, q, to, from);
                          });
        } else {
            transpose_units(exact_piece<Size>{}, part, d, s);
        }
    };
    for_each_part(p, tile, tile, Size, dst, src, copy_tile);
}

template <class Piece>
void transpose_plane(Piece piece, plane const& p, std::byte* dst, std::byte const* src) noexcept {
    // Tiles of one cache line per side; when one side is shorter, the other is longer.
    auto const tile = static_cast<std::int64_t>(64 / piece.size > 4 ? 64 / piece.size : 4);
    auto const rows = p.columns < tile ? tile * tile / p.columns : tile;
    auto const columns = p.rows < tile ? tile * tile / p.rows : tile;
    for_each_part(p, rows, columns, piece.size, dst, src,
                  [](plane_part const& part, std::size_t unit, std::byte* d, std::byte const* s) noexcept {
                      transpose_units(Piece{unit}, part, d, s);
                  });
}

template <std::size_t Size>
void transpose_plane(exact_piece<Size> piece, plane const& p, std::byte* dst, std::byte const* src) noexcept {
    constexpr std::int64_t size = Size, block = 16 / size, line = 64;
    if (p.dst_column != size || p.src_row != size || p.rows < block || p.columns < block)
        return transpose_plane<exact_piece<Size>>(piece, p, dst, src);
    // A cache line that is written in two parts may be evicted between the two writes, which slows the copy. Tiles
    // therefore start at a cache line boundary of the destination, if all rows have the same alignment.
    auto const to_line = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(dst) % std::uintptr_t{line});
    plane head{p}, rest{p};
    head.columns = p.dst_row % line == 0 && to_line % size == 0 ? to_line / size : 0;
    rest.columns -= head.columns;
    if (head.columns == 0 || rest.columns < block) return transpose_dense<Size>(p, dst, src);
    transpose_plane<exact_piece<Size>>(piece, head, dst, src);
    transpose_dense<Size>(rest, dst + to_line, src + head.columns * p.src_column);
}

/// Executes a transpose plan over units of `unit` bytes: the source's fastest dimension is rank − 2, the destination's
/// is rank − 1.
inline void transpose(loop_nest const& nest, std::int64_t unit, std::byte* dst, std::byte const* src) noexcept {
    plane inner{nest};
    if (inner.src_row < 0) {  // reversed, so that source strides are positive (R28)
        dst += (inner.rows - 1) * inner.dst_row;
        src += (inner.rows - 1) * inner.src_row;
        inner.dst_row = -inner.dst_row;
        inner.src_row = -inner.src_row;
    }
    auto* const copy = with_piece(unit, [](auto piece) noexcept -> plane_function* {
        return [](plane const& p, std::size_t size, std::byte* d, std::byte const* s) noexcept {
            transpose_plane(decltype(piece){size}, p, d, s);
        };
    });
    for_each_plane(nest, inner, 2, static_cast<std::size_t>(unit), dst, src, copy);
}

}  // namespace FERRY_NAMESPACE::detail
