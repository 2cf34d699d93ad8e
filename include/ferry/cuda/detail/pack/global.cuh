// ferry: the bodies of the pack kernels. Blocks have `pack_threads` threads; any number of blocks.
#pragma once

#include <ferry/cuda/detail/pack/kernels.cuh>

#include <cstdint>

namespace FERRY_NAMESPACE::cuda::detail {

template <class Word, class Count, class Offset>
__device__ inline void run_gather(pack_arguments const& a) {
    gather_words<Word, Count, Offset>(a, static_cast<Count>(blockIdx.x) * pack_threads + threadIdx.x,
                                      static_cast<Count>(gridDim.x) * pack_threads);
}

template <class Word, bool Vector>
__device__ inline void run_tiles(pack_arguments const& a) {
    using tile = detail::tile<Word, Vector>;
    __shared__ alignas(16) unsigned char memory[sizeof(Word) * tile::edge * tile::pitch];
    auto* const shared = reinterpret_cast<Word*>(memory);
    for (std::uint32_t n = blockIdx.x; n < a.count; n += gridDim.x) {
        tile const here{a, n};
        here.load(shared, static_cast<int>(threadIdx.x));
        __syncthreads();
        here.store(shared, static_cast<int>(threadIdx.x));
        __syncthreads();
    }
}

/// Copies pieces, with one warp for each part of a piece.
__device__ inline void run_pieces(piece_list const& l) {
    std::uint32_t const warp = blockIdx.x * pack_warps + threadIdx.x / warp_lanes;
    if (warp < l.count * l.parts)
        copy_piece(l.pieces[warp / l.parts], warp % l.parts, l.parts, threadIdx.x % warp_lanes);
}

__device__ inline void run_bits(pack_arguments const& a) {
    if (a.bytes == 0) {
        if (blockIdx.x == 0 && threadIdx.x == 0) copy_bit_groups(a, 0, 1);
        return;
    }
    copy_bit_groups(a, static_cast<std::uint64_t>(blockIdx.x) * pack_threads + threadIdx.x,
                    static_cast<std::uint64_t>(gridDim.x) * pack_threads);
}

}  // namespace FERRY_NAMESPACE::cuda::detail
