// ferry: the device code that executes copy plans. Compiled into programs by pack.cuh, and to PTX for pack.hpp. The
// code of a thread is __host__ __device__, so that tests run it without a device.
#pragma once

#include <ferry/cuda/detail/pack/arguments.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

// Only the device compiler supports this pragma.
#if defined(__CUDA_ARCH__)
#define FERRY_UNROLL(how) _Pragma(#how)
#else
#define FERRY_UNROLL(how)
#endif

namespace FERRY_NAMESPACE::cuda::detail {

struct alignas(16) word_16 {
    std::uint64_t low, high;
};

/// Divides `n` by `by`: returns the quotient and stores the remainder in `n`.
template <class Count>
__host__ __device__ inline Count divide(Count& n, std::int64_t by, divisor const& fast) {
    Count q;
    if constexpr (sizeof(Count) == 4) {
        q = fast.by == 1 ? n
                         : static_cast<Count>((static_cast<std::uint64_t>(n) * fast.multiplier) >> 32 >> fast.shift);
        n -= q * fast.by;
    } else {
        q = n / static_cast<Count>(by);
        n -= q * static_cast<Count>(by);
    }
    return q;
}

/// Copies words `first`, `first + step`, …, with four loads before the first store. Offsets past the last word are
/// computed but not accessed.
template <class Word, class Count, class Offset>
__host__ __device__ inline void gather_words(pack_arguments const& a, Count first, Count step) {
    auto const count = static_cast<Count>(a.count);
    for (Count start = first; start < count; start += gather_depth * step) {
        Word words[gather_depth];
        Count rest[gather_depth];
        Offset to[gather_depth], from[gather_depth];
        FERRY_UNROLL(unroll)
        for (int k = 0; k < gather_depth; ++k) {
            rest[k] = start + static_cast<Count>(k) * step;
            to[k] = from[k] = 0;
        }
        FERRY_UNROLL(unroll 1)
        for (int i = a.rank - 1; i >= 0; --i) {
            auto const dst_stride = static_cast<Offset>(a.dst_strides[i]),
                       src_stride = static_cast<Offset>(a.src_strides[i]);
            FERRY_UNROLL(unroll)
            for (int k = 0; k < gather_depth; ++k) {
                Count index = rest[k];
                if (i > 0) rest[k] = divide(index, a.extents[i], a.extent_divisors[i]);
                to[k] += static_cast<Offset>(index) * dst_stride;
                from[k] += static_cast<Offset>(index) * src_stride;
            }
        }
        FERRY_UNROLL(unroll)
        for (int k = 0; k < gather_depth; ++k)
            if (start + static_cast<Count>(k) * step < count)
                words[k] = *reinterpret_cast<Word const*>(a.src + from[k]);
        FERRY_UNROLL(unroll)
        for (int k = 0; k < gather_depth; ++k)
            if (start + static_cast<Count>(k) * step < count) *reinterpret_cast<Word*>(a.dst + to[k]) = words[k];
    }
}

/// Copies words `lane`, `lane + 32`, … of a segment, with four loads in flight.
template <class Word>
__host__ __device__ inline void copy_words(std::byte* dst, std::byte const* src, std::uint32_t count,
                                           std::uint32_t lane) {
    for (std::uint32_t start = lane; start < count; start += gather_depth * warp_lanes) {
        Word words[gather_depth];
        FERRY_UNROLL(unroll)
        for (std::uint32_t k = 0; k < gather_depth; ++k)
            if (start + k * warp_lanes < count) words[k] = reinterpret_cast<Word const*>(src)[start + k * warp_lanes];
        FERRY_UNROLL(unroll)
        for (std::uint32_t k = 0; k < gather_depth; ++k)
            if (start + k * warp_lanes < count) reinterpret_cast<Word*>(dst)[start + k * warp_lanes] = words[k];
    }
}

template <class Word>
__host__ __device__ inline void copy_segment(std::byte* dst, std::byte const* src, std::uint32_t bytes,
                                             std::uint32_t lane) {
    copy_words<Word>(dst, src, bytes / sizeof(Word), lane);
    std::uint32_t const last = bytes / sizeof(Word) * sizeof(Word) + lane;
    if (last < bytes) dst[last] = src[last];
}

/// Copies a lane's share of the segments `part`, `part + parts`, … of a piece, in the largest words that both addresses
/// allow.
__host__ __device__ inline void copy_piece(piece const& p, std::uint32_t part, std::uint32_t parts,
                                           std::uint32_t lane) {
    auto const together = reinterpret_cast<std::uintptr_t>(p.dst) | reinterpret_cast<std::uintptr_t>(p.src);
    for (std::uint64_t at = part * piece_list::segment; at < p.bytes; at += parts * piece_list::segment) {
        auto* const to = static_cast<std::byte*>(p.dst) + at;
        auto const* const from = static_cast<std::byte const*>(p.src) + at;
        std::uint64_t const left = p.bytes - at;
        auto const n = static_cast<std::uint32_t>(left < piece_list::segment ? left : piece_list::segment);
        if (together % 16 == 0) copy_segment<word_16>(to, from, n, lane);
        else if (together % 8 == 0) copy_segment<std::uint64_t>(to, from, n, lane);
        else if (together % 4 == 0) copy_segment<std::uint32_t>(to, from, n, lane);
        else if (together % 2 == 0) copy_segment<std::uint16_t>(to, from, n, lane);
        else copy_segment<std::uint8_t>(to, from, n, lane);
    }
}

/// One tile: rows run along the source's fastest dimension, columns along the destination's.
template <class Word, bool Vector>
struct tile {
    static constexpr int edge = tile_edge<Word>;
    // Pads columns against bank conflicts.
    static constexpr int pitch = edge + (sizeof(Word) < 4 ? 4 / static_cast<int>(sizeof(Word)) : 1);
    // Words in one access.
    static constexpr int width = Vector ? 4 / static_cast<int>(sizeof(Word)) : 1;
    static constexpr int per_line = edge / width;
    static constexpr int per_thread = edge * per_line / pack_threads;
    static constexpr int at_once = per_thread > 8 ? 4 : per_thread;  // limits the registers
    using piece = std::conditional_t<Vector, std::uint32_t, Word>;

    std::byte* dst;
    std::byte const* src;
    std::int64_t dst_row, dst_column, src_row, src_column;
    int rows = edge, columns = edge;

    __host__ __device__ tile(pack_arguments const& a, std::uint32_t n) : dst{a.dst}, src{a.src} {
        int const column = a.rank - 1, row = a.rank - 2;
        dst_row = a.dst_strides[row];
        dst_column = a.dst_strides[column];
        src_row = a.src_strides[row];
        src_column = a.src_strides[column];
        auto rest = divide(n, 0, a.tiles[0]);
        auto const first_row = static_cast<std::int64_t>(n) * edge;
        n = rest;
        rest = divide(n, 0, a.tiles[1]);
        auto const first_column = static_cast<std::int64_t>(n) * edge;
        n = rest;
        if (a.extents[row] - first_row < edge) rows = static_cast<int>(a.extents[row] - first_row);
        if (a.extents[column] - first_column < edge) columns = static_cast<int>(a.extents[column] - first_column);
        dst += first_row * dst_row + first_column * dst_column;
        src += first_row * src_row + first_column * src_column;
        FERRY_UNROLL(unroll 1)
        for (int i = row - 1; i >= 0; --i) {
            rest = divide(n, 0, a.extent_divisors[i]);
            dst += static_cast<std::int64_t>(n) * a.dst_strides[i];
            src += static_cast<std::int64_t>(n) * a.src_strides[i];
            n = rest;
        }
    }

    /// Reads a tile into shared memory. Piece `n` is a run of rows in one column.
    __host__ __device__ void load(Word* shared, int thread) const {
        FERRY_UNROLL(unroll 1)
        for (int first = thread; first < edge * per_line; first += at_once * pack_threads) {
            piece pieces[at_once];
            FERRY_UNROLL(unroll)
            for (int k = 0; k < at_once; ++k) {
                int const n = first + k * pack_threads, column = n / per_line, row = n % per_line * width;
                if (column < columns && row < rows)
                    pieces[k] = *reinterpret_cast<piece const*>(src + row * src_row + column * src_column);
            }
            FERRY_UNROLL(unroll)
            for (int k = 0; k < at_once; ++k) {
                int const n = first + k * pack_threads, column = n / per_line, row = n % per_line * width;
                if (column < columns && row < rows)
                    *reinterpret_cast<piece*>(shared + column * pitch + row) = pieces[k];
            }
        }
    }

    /// Writes a tile from shared memory. Piece `n` is a run of columns in one row.
    __host__ __device__ void store(Word const* shared, int thread) const {
        FERRY_UNROLL(unroll 4)
        for (int n = thread; n < edge * per_line; n += pack_threads) {
            int const row = n / per_line, column = n % per_line * width;
            if (column >= columns || row >= rows) continue;
            piece p;
            if constexpr (Vector) {
                p = 0;
                for (int i = 0; i < width; ++i)
                    p |= static_cast<std::uint32_t>(shared[(column + i) * pitch + row])
                         << i * 8 * static_cast<int>(sizeof(Word));
            } else {
                p = shared[column * pitch + row];
            }
            *reinterpret_cast<piece*>(dst + row * dst_row + column * dst_column) = p;
        }
    }
};

/// Loads `count` ≤ 8 bits from bit `at` of `p`. Reads only bytes that contain them.
__host__ __device__ inline unsigned load_few_bits(std::byte const* p, std::int64_t at, int count) {
    auto const* bytes = reinterpret_cast<unsigned char const*>(p) + (at >> 3);
    int const shift = static_cast<int>(at & 7);
    unsigned value = bytes[0];
    if (shift + count > 8) value |= static_cast<unsigned>(bytes[1]) << 8;
    return value >> shift & ((1u << count) - 1);
}

__host__ __device__ inline void write_masked(std::byte* p, unsigned value, unsigned mask) {
    auto* byte = reinterpret_cast<unsigned char*>(p);
    if (mask == 0xff) *byte = static_cast<unsigned char>(value);
    else if (mask != 0) *byte = static_cast<unsigned char>((*byte & ~mask) | value);
}

/// Assembles destination byte `b` of the inner loops from the units that overlap it.
__host__ __device__ inline void assemble_byte(pack_arguments const& a, std::byte* dst, std::int64_t b,
                                              std::int64_t src_start) {
    unsigned value = 0, mask = 0;
    for (int t = b == 0 ? a.dst_shift : 0; t < 8;) {
        std::int64_t at = b * 8 + t - a.dst_shift, from = src_start;
        FERRY_UNROLL(unroll 1)
        for (int i = a.outer; i < a.rank; ++i) {
            std::int64_t index = at / a.dst_strides[i];
            if (index >= a.extents[i]) index = a.extents[i] - 1;
            at -= index * a.dst_strides[i];
            from += index * a.src_strides[i];
        }
        std::int64_t left = 1;  // between two units
        if (at < a.span) left = (at < a.unit ? a.unit : a.span) - at;
        int const n = left < 8 - t ? static_cast<int>(left) : 8 - t;
        if (at < a.unit) value |= load_few_bits(a.src, from + at, n) << t;
        if (at < a.span) mask |= ((1u << n) - 1) << t;
        t += n;
    }
    write_masked(dst + b, value, mask);
}

/// Copies the destination bytes `first`, `first + step`, …; when the loops are not nested in the destination (bytes ==
/// 0), all units in order.
__host__ __device__ inline void copy_bit_groups(pack_arguments const& a, std::uint64_t first, std::uint64_t step) {
    for (std::uint64_t n = first; n < a.count; n += step) {
        auto rest = a.bytes != 0 ? n / static_cast<std::uint64_t>(a.bytes) : n;
        auto const b = static_cast<std::int64_t>(a.bytes != 0 ? n - rest * static_cast<std::uint64_t>(a.bytes) : 0);
        std::int64_t to = 0, from = a.src_shift;
        FERRY_UNROLL(unroll 1)
        for (int i = a.outer - 1; i >= 0; --i) {
            auto const index = static_cast<std::int64_t>(rest % static_cast<std::uint64_t>(a.extents[i]));
            rest /= static_cast<std::uint64_t>(a.extents[i]);
            to += index * a.dst_strides[i];
            from += index * a.src_strides[i];
        }
        if (a.bytes != 0) {
            assemble_byte(a, a.dst + to / 8, b, from);
            continue;
        }
        to += a.dst_shift;
        for (std::int64_t at = 0; at < a.span;) {
            int const t = static_cast<int>((to + at) & 7);
            std::int64_t const left = (at < a.unit ? a.unit : a.span) - at;
            int const k = left < 8 - t ? static_cast<int>(left) : 8 - t;
            unsigned const value = at < a.unit ? load_few_bits(a.src, from + at, k) : 0;
            write_masked(a.dst + ((to + at) >> 3), value << t, ((1u << k) - 1) << t);
            at += k;
        }
    }
}

}  // namespace FERRY_NAMESPACE::cuda::detail

#undef FERRY_UNROLL
