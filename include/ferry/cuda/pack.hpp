// ferry: strided copies by kernels, without nvcc: the kernels travel as PTX.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/detail/pack_launch.hpp>
#include <ferry/cuda/detail/pack_ptx.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/piece.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/copy_plan.hpp>

#include <span>

namespace ferry::inline v0::cuda {
namespace detail {

/// Loads PTX for every device at once: what `take(kernel_by_name)` makes of it. Stays until the process ends: nobody
/// may unload a kernel that is still queued. When it throws, nothing is left.
template <class Take>
auto load_ptx(char const* ptx, Take take) {
    cudaLibrary_t library = nullptr;
    check(cudaLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0), "cudaLibraryLoadData");
    try {
        return take([library](char const* name) {
            cudaKernel_t kernel = nullptr;
            check(cudaLibraryGetKernel(&kernel, library, name), "cudaLibraryGetKernel");
            return kernel;
        });
    } catch (...) {
        ignore(cudaLibraryUnload(library));
        throw;
    }
}

/// The kernels of one word size.
struct pack_library {
    static constexpr char const* names[] = {"ferry_gather_32", "ferry_gather_mixed", "ferry_gather_64",
                                            "ferry_tiles",     "ferry_tiles_vector", "ferry_bits"};
    cudaKernel_t kernels[6] = {};

    pack_library(char const* ptx, int word) {
        load_ptx(ptx, [&](auto kernel) {
            for (int i = 0; i < 6; ++i)
                if (has(static_cast<pack_kernel>(i), word)) kernels[i] = kernel(names[i]);
        });
    }
    [[nodiscard]] static constexpr bool has(pack_kernel k, int word) noexcept {
        if (word == 0) return k == pack_kernel::bits;
        return k <= pack_kernel::tiles || (k == pack_kernel::tiles_vector && word <= 2);
    }
};

/// Loaded at the first job that needs it, once; immutable from then on. A failed load is tried again by the next job.
[[nodiscard]] inline void const* ptx_kernel(pack_job const& job) {
    auto const kernel = [&]() -> cudaKernel_t {
        auto const i = static_cast<int>(job.kernel);
        switch (job.word) {
            case 0: {
                static pack_library const l{pack_ptx_0, 0};
                return l.kernels[i];
            }
            case 1: {
                static pack_library const l{pack_ptx_1, 1};
                return l.kernels[i];
            }
            case 2: {
                static pack_library const l{pack_ptx_2, 2};
                return l.kernels[i];
            }
            case 4: {
                static pack_library const l{pack_ptx_4, 4};
                return l.kernels[i];
            }
            case 8: {
                static pack_library const l{pack_ptx_8, 8};
                return l.kernels[i];
            }
            default: {
                static pack_library const l{pack_ptx_16, 16};
                return l.kernels[i];
            }
        }
    }();
    return kernel;
}

/// The same for scattered pieces.
[[nodiscard]] inline void const* ptx_pieces_kernel() {
    static cudaKernel_t const kernel = load_ptx(pack_ptx_pieces, [](auto by_name) { return by_name("ferry_pieces"); });
    return kernel;
}

}  // namespace detail

/// Carries out a copy plan by a kernel queued on `on`: any strides, units and offsets, sub-byte elements included.
/// `dst` and `src` are the first elements of the views that the plan was made from, in memory that the stream's device
/// can access: its own, managed, pinned, or a peer's, to which access is enabled. They must not overlap, and live until
/// the stream got there. Contiguous plans become a cudaMemcpyAsync.
///
/// Never blocks, allocates nothing, never writes outside the destination's elements. A default stream is that of the
/// current device; other streams know theirs, and the current device stays as it is; only while a stream is being
/// captured its device must be the current one.
///
/// The driver compiles the kernels of a word size for its device at the first call that needs them (about 0.1 s, then
/// kept in its cache on disk), so make that call outside of a capture; `pack_compiled` of pack.cuh has them in the
/// program. Layouts that interleave in the destination without being nested, in bits, are copied by one thread.
/// Thread-safe.
///
/// \throws error  errc::stream for a null handle; no_peer_access; what the driver reports: nothing is queued then
inline void pack(copy_plan const& plan, void* dst, void const* src, stream_ref on) {
    detail::launch_pack(plan, dst, src, on, detail::ptx_kernel, "ferry::cuda::pack");
}

/// Copies scattered pieces by a kernel queued on `on`, one launch for each 1024 of them: nearly as fast as one copy of
/// as many bytes where they have some KiB each, and `copy_batch` pays the driver for each. Meant for many pieces of
/// about one size. All memory must be such that the stream's device can access it, and nobody asks whether it can: each
/// question would cost as much as a piece. It lives until the stream got there. Pieces of 0 bytes are left out; those
/// whose two addresses have no power of two in common travel byte by byte.
///
/// Does not block, allocates nothing; may be captured, with the pieces as they are now. The kernel is compiled for its
/// device at the first call, as those of plans are. Thread-safe.
///
/// \throws error  errc::stream for a null handle; what the driver reports: earlier launches have then run, unless the
///                stream is being captured, whose capture is lost
inline void pack_pieces(std::span<piece const> pieces, stream_ref on) {
    detail::launch_pieces(pieces, on, detail::ptx_pieces_kernel, "ferry::cuda::pack_pieces");
}

}  // namespace ferry::inline v0::cuda
