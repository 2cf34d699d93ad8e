// ferry: the arguments of pack kernels. Includes no headers of CUDA or DLPack, which are not needed to compile the PTX.
#pragma once

#include <ferry/config.hpp>
#include <ferry/cuda/piece.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda::detail {

/// Division by a number known on the host, for dividends below 2³¹: a multiplication and a shift, because GPUs have no
/// instruction for integer division.
struct divisor {
    std::uint32_t by = 1;
    std::uint32_t multiplier = 0;
    std::uint32_t shift = 0;

    constexpr divisor() = default;
    constexpr explicit divisor(std::uint32_t d) noexcept : by{d} {
        if (d <= 1) return;
        unsigned log = 0;
        // Rounded up: the quotient is exact for every 31-bit dividend.
        while ((std::uint64_t{1} << log) < d) ++log;
        multiplier = static_cast<std::uint32_t>(((std::uint64_t{1} << (31 + log)) + d - 1) / d);
        shift = log - 1;
    }
};

/// The loops of a plan, which are passed to kernels by value (2.3 KiB). Strides are in bytes, or in bits for `bits`.
struct pack_arguments {
    static constexpr int max_rank = 63;  ///< loops of a plan, and one over the words of its unit

    std::byte* dst;        ///< first byte of the destination
    std::byte const* src;  ///< first byte of the source
    std::uint64_t count;   ///< number of words, tiles, destination bytes, or units
    std::int32_t rank;
    std::int32_t outer;      ///< `bits` only: outer loops, whose iterations share no destination byte
    divisor tiles[2];        ///< number of tiles in the fastest dimension of the source, and of the destination
    std::int64_t unit;       ///< `bits` only: number of bits copied for each index
    std::int64_t span;       ///< `bits` only: number of bits copied or cleared for each index
    std::int64_t bytes;      ///< `bits` only: destination bytes of the inner loops; if 0, one thread copies all units
    std::int32_t dst_shift;  ///< `bits` only: first bit in the first byte
    std::int32_t src_shift;
    std::int64_t extents[max_rank];
    std::int64_t dst_strides[max_rank];
    std::int64_t src_strides[max_rank];
    divisor extent_divisors[max_rank];
};
static_assert(sizeof(pack_arguments) <= 4096 - 256);

/// Scattered pieces, passed by value, because a list in device memory would have to outlive the launch. A launch
/// supports 32 764 bytes of arguments.
struct piece_list {
    static constexpr int most = 1024;
    /// Bytes of a piece that a warp copies at a time.
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
/// Number of loads that a thread of `gather` has in flight.
inline constexpr int gather_depth = 4;

}  // namespace FERRY_NAMESPACE::cuda::detail
