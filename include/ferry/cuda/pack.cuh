// ferry: strided copies with kernels that nvcc compiles into the program. Requires nvcc.
#pragma once

#include <ferry/cuda/detail/pack/global.cuh>
#include <ferry/cuda/detail/pack/launch.hpp>
#include <ferry/cuda/pack.hpp>

#include <cstdint>
#include <span>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

template <class Word, class Count, class Offset>
__global__ void __launch_bounds__(pack_threads) gather_kernel(__grid_constant__ pack_arguments const a) {
    run_gather<Word, Count, Offset>(a);
}
template <class Word, bool Vector>
__global__ void __launch_bounds__(pack_threads) tiles_kernel(__grid_constant__ pack_arguments const a) {
    run_tiles<Word, Vector>(a);
}
template <class = void>
__global__ void __launch_bounds__(pack_threads) bits_kernel(__grid_constant__ pack_arguments const a) {
    run_bits(a);
}

template <class = void>
__global__ void __launch_bounds__(pack_threads) pieces_kernel(__grid_constant__ piece_list const l) {
    run_pieces(l);
}

template <class Word>
[[nodiscard]] void const* compiled_kernel_of(pack_kernel k) {
    switch (k) {
        case pack_kernel::gather_32:
            return reinterpret_cast<void const*>(&gather_kernel<Word, std::uint32_t, std::int32_t>);
        case pack_kernel::gather_mixed:
            return reinterpret_cast<void const*>(&gather_kernel<Word, std::uint32_t, std::int64_t>);
        case pack_kernel::gather_64:
            return reinterpret_cast<void const*>(&gather_kernel<Word, std::uint64_t, std::int64_t>);
        case pack_kernel::tiles_vector:
            if constexpr (sizeof(Word) <= 2) return reinterpret_cast<void const*>(&tiles_kernel<Word, true>);
            [[fallthrough]];
        default: return reinterpret_cast<void const*>(&tiles_kernel<Word, false>);
    }
}

[[nodiscard]] inline void const* compiled_kernel(pack_job const& job) {
    switch (job.word) {
        case 0: return reinterpret_cast<void const*>(&bits_kernel<>);
        case 1: return compiled_kernel_of<std::uint8_t>(job.kernel);
        case 2: return compiled_kernel_of<std::uint16_t>(job.kernel);
        case 4: return compiled_kernel_of<std::uint32_t>(job.kernel);
        case 8: return compiled_kernel_of<std::uint64_t>(job.kernel);
        default: return compiled_kernel_of<word_16>(job.kernel);
    }
}

}  // namespace detail

/// Executes a copy plan as `pack` does, with the same kernels, which nvcc compiles into the program. For the
/// architectures passed to nvcc, nothing is compiled at run time. A program may use both functions. On failure, nothing
/// is queued. Thread-safe.
///
/// \param plan  copy to execute
/// \param dst   first element of the destination
/// \param src   first element of the source
/// \param on    CUDA stream
/// \throws error  errors of `pack`; errc::driver when the program has no code for the device
inline void pack_compiled(copy_plan const& plan, void* dst, void const* src, stream_ref on) {
    detail::launch_pack(plan, dst, src, on, detail::compiled_kernel, "ferry::cuda::pack_compiled");
}

/// Copies scattered pieces as `pack_pieces` does, with the kernel that nvcc compiles into the program. Thread-safe.
///
/// \param pieces  copies; no destination may overlap a source or another destination
/// \param on      CUDA stream
/// \throws error  errors of `pack_pieces`; errc::driver when the program has no code for the device
inline void pack_pieces_compiled(std::span<piece const> pieces, stream_ref on) {
    detail::launch_pieces(
        pieces, on, [] { return reinterpret_cast<void const*>(&detail::pieces_kernel<>); },
        "ferry::cuda::pack_pieces_compiled");
}

}  // namespace FERRY_NAMESPACE::cuda
