// The kernels of ferry/cuda/pack.hpp for one word size: FERRY_PACK_WORD is 1, 2, 4, 8 or 16, 0 for bits, or not there
// for scattered pieces.
#include <ferry/cuda/detail/pack/global.cuh>

namespace pack = ferry::cuda::detail;

#define FERRY_KERNEL(name)                                           \
    extern "C" __global__ void __launch_bounds__(pack::pack_threads) \
        name(__grid_constant__ pack::pack_arguments const a)

#if !defined(FERRY_PACK_WORD)
extern "C" __global__ void __launch_bounds__(pack::pack_threads)
    ferry_pieces(__grid_constant__ pack::piece_list const l) {
    pack::run_pieces(l);
}
#elif FERRY_PACK_WORD == 0
FERRY_KERNEL(ferry_bits) { pack::run_bits(a); }
#else
#if FERRY_PACK_WORD == 1
using word = std::uint8_t;
#elif FERRY_PACK_WORD == 2
using word = std::uint16_t;
#elif FERRY_PACK_WORD == 4
using word = std::uint32_t;
#elif FERRY_PACK_WORD == 8
using word = std::uint64_t;
#else
using word = pack::word_16;
#endif
FERRY_KERNEL(ferry_gather_32) { pack::run_gather<word, std::uint32_t, std::int32_t>(a); }
FERRY_KERNEL(ferry_gather_mixed) { pack::run_gather<word, std::uint32_t, std::int64_t>(a); }
FERRY_KERNEL(ferry_gather_64) { pack::run_gather<word, std::uint64_t, std::int64_t>(a); }
FERRY_KERNEL(ferry_tiles) { pack::run_tiles<word, false>(a); }
#if FERRY_PACK_WORD <= 2
FERRY_KERNEL(ferry_tiles_vector) { pack::run_tiles<word, true>(a); }
#endif
#endif
