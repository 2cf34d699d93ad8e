// ferry: executes nested loops over units with as few runtime copies as possible.
#pragma once

#include <ferry/cuda/error.hpp>
#include <ferry/space/loop_nest.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda::detail {

/// The largest pitch of pitched copies (cudaDevAttrMaxPitch), assumed for all GPUs.
inline constexpr std::int64_t max_pitch = 0x7fffffff;

/// Returns the number of innermost loops that one runtime copy can execute: 1 for rows, whose pitch must be at least
/// their width on both sides; 2 for slices of rows, whose distance must be a multiple of the pitch; 0 when each unit
/// needs its own copy (strides that are negative, zero or too large).
[[nodiscard]] constexpr int loops_per_copy(loop_nest const& p, std::int64_t unit) noexcept {
    int const rows = p.rank - 1, slices = p.rank - 2;
    if (rows < 0) return 0;
    auto const fits = [unit](std::int64_t pitch) { return pitch >= unit && pitch <= max_pitch; };
    if (!fits(p.dst_strides[rows]) || !fits(p.src_strides[rows])) return 0;
    if (slices < 0) return 1;
    auto const even = [&](std::int64_t const* strides) {
        return strides[slices] % strides[rows] == 0 && strides[slices] / strides[rows] >= p.extents[rows];
    };
    return even(p.dst_strides) && even(p.src_strides) ? 2 : 1;
}

/// Returns the number of copies that all loops need.
[[nodiscard]] constexpr std::int64_t count_copies(loop_nest const& p, std::int64_t unit) noexcept {
    std::int64_t n = 1;
    for (int i = p.rank - loops_per_copy(p, unit); i-- > 0;) n *= p.extents[i];
    return n;
}

/// The devices of a copy. Calls that copy between two GPUs specify both, because copies of pool memory would otherwise
/// require peer access.
struct route {
    bool between_gpus = false;
    std::int32_t to = 0;
    std::int32_t from = 0;
};

/// Queues one copy, which executes the `loops` innermost loops.
inline void copy_box(loop_nest const& p, std::int64_t unit, int loops, std::byte* dst, std::byte const* src, route way,
                     cudaStream_t s) {
    auto const size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    if (loops == 0) {
        if (way.between_gpus)
            check(cudaMemcpyPeerAsync(dst, way.to, src, way.from, size(unit), s), "cudaMemcpyPeerAsync");
        else check(cudaMemcpyAsync(dst, src, size(unit), cudaMemcpyDefault, s), "cudaMemcpyAsync");
        return;
    }
    int const rows = p.rank - 1, slices = p.rank - 2;
    auto const dst_pitch = size(p.dst_strides[rows]), src_pitch = size(p.src_strides[rows]),
               height = size(p.extents[rows]);
    if (loops == 1 && !way.between_gpus) {
        check(cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, size(unit), height, cudaMemcpyDefault, s),
              "cudaMemcpy2DAsync");
        return;
    }
    auto const side = [&](void* at, std::size_t pitch, std::int64_t const* strides) {
        return cudaPitchedPtr{at, pitch, size(unit), loops == 2 ? size(strides[slices]) / pitch : height};
    };
    cudaPitchedPtr const to = side(dst, dst_pitch, p.dst_strides),
                         from = side(const_cast<std::byte*>(src), src_pitch, p.src_strides);
    cudaExtent const box{size(unit), height, loops == 2 ? size(p.extents[slices]) : 1};
    if (way.between_gpus) {
        cudaMemcpy3DPeerParms all{};
        all.dstPtr = to;
        all.srcPtr = from;
        all.dstDevice = way.to;
        all.srcDevice = way.from;
        all.extent = box;
        check(cudaMemcpy3DPeerAsync(&all, s), "cudaMemcpy3DPeerAsync");
        return;
    }
    cudaMemcpy3DParms all{};
    all.dstPtr = to;
    all.srcPtr = from;
    all.extent = box;
    all.kind = cudaMemcpyDefault;
    check(cudaMemcpy3DAsync(&all, s), "cudaMemcpy3DAsync");
}

/// Queues all copies of a loop nest in bytes; its offsets are relative to `dst` and `src`.
inline void copy_pieces(loop_nest const& p, std::int64_t unit, void* dst, void const* src, route way, cudaStream_t s) {
    int const loops = loops_per_copy(p, unit), outer = p.rank - loops;
    auto* to = static_cast<std::byte*>(dst) + p.dst_offset;
    auto const* from = static_cast<std::byte const*>(src) + p.src_offset;
    std::int64_t index[loop_nest::max_rank] = {};
    for (;;) {
        copy_box(p, unit, loops, to, from, way, s);
        int i = outer;
        while (--i >= 0) {
            to += p.dst_strides[i];
            from += p.src_strides[i];
            if (++index[i] < p.extents[i]) break;
            to -= p.dst_strides[i] * p.extents[i];
            from -= p.src_strides[i] * p.extents[i];
            index[i] = 0;
        }
        if (i < 0) return;
    }
}

}  // namespace FERRY_NAMESPACE::cuda::detail
