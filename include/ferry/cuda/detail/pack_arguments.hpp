// ferry: what a pack kernel is told. Needs no CUDA header and no DLPack: the kernels' PTX is made from it alone.
#pragma once

#include <ferry/config.hpp>
#include <ferry/cuda/piece.hpp>

#include <cstddef>
#include <cstdint>

namespace ferry::inline v0::cuda::detail {

/// Division by a number that the host knows, for dividends below 2³¹: a product and a shift instead of twenty
/// instructions.
struct divisor {
    std::uint32_t by = 1;
    std::uint32_t multiplier = 0;
    std::uint32_t shift = 0;

    constexpr divisor() = default;
    constexpr explicit divisor(std::uint32_t d) noexcept : by{d} {
        if (d <= 1) return;
        unsigned log = 0;
        // Rounded up: the product errs by less than one for every 31-bit dividend.
        while ((std::uint64_t{1} << log) < d) ++log;
        multiplier = static_cast<std::uint32_t>(((std::uint64_t{1} << (31 + log)) + d - 1) / d);
        shift = log - 1;
    }
};

/// The loops of a plan as kernels walk them; passed by value, 2.1 KiB of the 4 KiB that a launch carries. Distances are
/// bytes, or bits in `bits`.
struct pack_arguments {
    static constexpr int max_rank = 63;  ///< those of a plan, and the words of its unit

    std::byte* dst;  ///< where the loops start
    std::byte const* src;
    std::uint64_t count;  ///< of words, of tiles, of groups of destination bytes, or of units
    std::int32_t rank;
    std::int32_t outer;      ///< bits: loops that no destination byte takes part in twice
    divisor tiles[2];        ///< tiles in the source's fastest dimension, and in the destination's
    std::int64_t unit;       ///< bits: copied for each index
    std::int64_t span;       ///< bits: copied or cleared for each index
    std::int64_t bytes;      ///< bits: destination bytes of all inner loops; 0: one thread walks all units
    std::int32_t dst_shift;  ///< bits: where the loops start within the byte
    std::int32_t src_shift;
    std::int64_t extents[max_rank];
    std::int64_t dst_strides[max_rank];
    std::int64_t src_strides[max_rank];
    divisor extent_divisors[max_rank];
};
static_assert(sizeof(pack_arguments) <= 4096 - 256);

/// Scattered pieces, passed by value: a launch carries 32 764 bytes, and needs no list in memory that would have to
/// live until it runs.
struct piece_list {
    static constexpr int most = 1024;
    /// Of a piece, carried by one warp at a time.
    static constexpr std::uint64_t segment = 8192;
    static constexpr std::uint32_t most_warps = 16384;

    std::uint32_t count;
    std::uint32_t parts;  ///< warps that share a piece
    piece pieces[most];
};
static_assert(sizeof(piece_list) <= 32764);

/// Tiles have 64 × 64 words of 1 or 2 bytes, 32 × 32 of larger ones.
template <class Word>
inline constexpr int tile_edge = sizeof(Word) <= 2 ? 64 : 32;
inline constexpr int pack_threads = 256;
inline constexpr std::uint32_t warp_lanes = 32, pack_warps = pack_threads / warp_lanes;
/// Words that a thread of `gather` has under way at once.
inline constexpr int gather_depth = 4;

}  // namespace ferry::inline v0::cuda::detail
