// ferry: strided copies with kernels that are embedded as compressed PTX. Does not need nvcc.
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/pack/launch.hpp>
#include <ferry/cuda/detail/pack/fatbin.hpp>
#include <ferry/cuda/detail/toolkit.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/piece.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/copy_plan.hpp>

#include <span>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

/// Loads a fat binary for every device and returns `take(kernel_by_name)`. The library stays loaded until the process
/// ends, because a queued kernel may need it. If `take` throws, the library is unloaded.
template <class Take>
auto load_kernels(void const* fatbin, Take take) {
    kernel_library const library = load_library(fatbin);
    try {
        return take([library](char const* name) { return get_kernel(library, name); });
    } catch (...) {
        ignore(unload_library(library));
        throw;
    }
}

/// The kernels for one word size.
struct pack_library {
    static constexpr char const* names[] = {"ferry_gather_32", "ferry_gather_mixed", "ferry_gather_64",
                                            "ferry_tiles",     "ferry_tiles_vector", "ferry_bits"};
    cudaKernel_t kernels[6] = {};

    pack_library(void const* fatbin, int word) {
        load_kernels(fatbin, [&](auto kernel) {
            for (int i = 0; i < 6; ++i)
                if (has(static_cast<pack_kernel>(i), word)) kernels[i] = kernel(names[i]);
        });
    }
    [[nodiscard]] static constexpr bool has(pack_kernel k, int word) noexcept {
        if (word == 0) return k == pack_kernel::bits;
        return k <= pack_kernel::tiles || (k == pack_kernel::tiles_vector && word <= 2);
    }
};

/// Returns a kernel of a fat binary; loads it at the first call. The next call repeats a failed load.
template <auto const& Fatbin, int Word>
[[nodiscard]] cudaKernel_t embedded_kernel_of(pack_kernel k) {
    static pack_library const l{Fatbin, Word};
    return l.kernels[static_cast<int>(k)];
}

/// Returns the kernel of a job.
[[nodiscard]] inline cudaKernel_t embedded_kernel(pack_job const& job) {
    switch (job.word) {
        case 0: return embedded_kernel_of<pack_fatbin_0, 0>(job.kernel);
        case 1: return embedded_kernel_of<pack_fatbin_1, 1>(job.kernel);
        case 2: return embedded_kernel_of<pack_fatbin_2, 2>(job.kernel);
        case 4: return embedded_kernel_of<pack_fatbin_4, 4>(job.kernel);
        case 8: return embedded_kernel_of<pack_fatbin_8, 8>(job.kernel);
        default: return embedded_kernel_of<pack_fatbin_16, 16>(job.kernel);
    }
}

/// Returns the kernel for scattered pieces; loads it as `embedded_kernel_of` does.
[[nodiscard]] inline cudaKernel_t embedded_pieces_kernel() {
    static cudaKernel_t const kernel =
        load_kernels(pack_fatbin_pieces, [](auto by_name) { return by_name("ferry_pieces"); });
    return kernel;
}

}  // namespace detail

/// Executes a copy plan with a kernel queued on `on`. Supports any strides, units and offsets, including sub-byte
/// elements. A contiguous plan is executed by cudaMemcpyAsync. On failure, nothing is queued. Thread-safe.
///
/// Both sides must be accessible from the stream's device: memory of that device, managed or pinned memory, or memory
/// of a peer device, to which the call enables access. The two sides must not overlap, and must stay valid until the
/// kernel has completed. Writes only the destination's elements.
///
/// Does not block and allocates no memory for the copy. A default stream is that of the current device. A stream that
/// is being captured must belong to the current device; other streams may belong to any device. The current device does
/// not change.
///
/// There is a set of kernels for each word size (1, 2, 4, 8 and 16 bytes) and one for copies in bits. At the first call
/// that needs a set, the driver compiles the set for the device and caches it on disk. The compilation takes much
/// longer than a copy. Make that call outside a capture. `pack_compiled` (pack.cuh) needs no compilation at run time. A
/// plan in bits is executed by a single thread if, in the destination, the stride of a loop is smaller than the range
/// that its inner loops span.
///
/// \param plan  copy to execute
/// \param dst   first element of the view that is the plan's destination
/// \param src   first element of the view that is the plan's source
/// \param on    CUDA stream
/// \throws error  errc::stream for a null handle; errc::capturing for an invalidated capture; errc::no_peer_access;
///                errors of `device_of_pointer`; errors of CUDA
inline void pack(copy_plan const& plan, void* dst, void const* src, stream_ref on) {
    detail::launch_pack(plan, dst, src, on, detail::embedded_kernel, "ferry::cuda::pack");
}

/// Copies scattered pieces with kernels queued on `on`, one launch for every 1024 pieces. For pieces of a few KiB, this
/// is several times as fast as `copy_batch` (docs/cuda.md, "Measurements"), which requires a driver operation for each
/// piece. Intended for many pieces of similar size. Does not block and allocates nothing. On failure, the earlier
/// launches of the call have completed; a capture of the stream may be invalidated. Thread-safe.
///
/// All memory must be accessible from the stream's device. This is not checked, because a query takes as long as the
/// copy of a piece. The memory must stay valid until the kernels have completed. Pieces of 0 bytes are skipped. Pieces
/// whose addresses have no common alignment are copied byte by byte.
///
/// The call may be captured; the graph then stores the list of pieces. At the first call, the driver compiles the
/// kernel for its device, as it does for `pack`.
///
/// \param pieces  copies; no destination may overlap a source or another destination
/// \param on      CUDA stream
/// \throws error  errc::stream for a null handle; errc::capturing for an invalidated capture; errors of CUDA
inline void pack_pieces(std::span<piece const> pieces, stream_ref on) {
    detail::launch_pieces(pieces, on, detail::embedded_pieces_kernel, "ferry::cuda::pack_pieces");
}

}  // namespace FERRY_NAMESPACE::cuda
