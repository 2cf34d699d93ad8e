// ferry: launches a pack job, with compiled or PTX kernels.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/pack/job.hpp>
#include <ferry/cuda/detail/peers.hpp>
#include <ferry/cuda/detail/toolkit.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/piece.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/copy_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

namespace FERRY_NAMESPACE::cuda::detail {

/// Makes the device of a stream current. The device of a captured stream must already be current, because it cannot be
/// queried.
class pack_device_guard {
   public:
    pack_device_guard(stream_ref on, char const* api) {
        if (on.get() == nullptr)
            ferry::detail::fail(
                errc::stream, api,
                message{"the stream is a null handle: pass stream_ref::legacy_default() or "
                        "per_thread_default() (R44)"});
        if (on.get() == cudaStreamLegacy || on.get() == cudaStreamPerThread) return;
        if (capture_of(on.get(), api) == 0) current_.emplace(device_of_uncaptured(stream_token::cuda(on.get())));
    }

   private:
    std::optional<device_guard> current_;
};

inline void launch(void const* kernel, dim3 blocks, void* argument, cudaStream_t s) {
    void* parameters[] = {argument};
    check(cudaLaunchKernel(kernel, blocks, dim3{pack_threads, 1, 1}, parameters, 0, s), "cudaLaunchKernel");
}
inline void launch(cudaKernel_t kernel, dim3 blocks, void* argument, cudaStream_t s) {
    void* parameters[] = {argument};
    launch_kernel(kernel, blocks, dim3{pack_threads, 1, 1}, parameters, s);
}

/// Launches the kernel of a plan. `kernel_of(job)` returns the address of a __global__ function, or a cudaKernel_t.
template <class KernelOf>
void launch_pack(copy_plan const& plan, void* dst, void const* src, stream_ref on, KernelOf kernel_of,
                 char const* api) {
    if (plan.kind == copy_kind::empty) return;
    pack_device_guard const here{on, api};
    cudaStream_t const s = on.get();
    if (plan.kind == copy_kind::contiguous) {
        check(cudaMemcpyAsync(static_cast<std::byte*>(dst) + plan.dst_offset,
                              static_cast<std::byte const*>(src) + plan.src_offset, static_cast<std::size_t>(plan.unit),
                              cudaMemcpyDefault, s),
              "cudaMemcpyAsync");
        return;
    }
    require_peer(dst, api);
    require_peer(src, api);
    pack_job job;
    make_pack_job(plan, dst, src, job);
    launch(kernel_of(job), dim3{job.blocks, 1, 1}, &job.arguments, s);
}

/// Launches the kernel for all pieces, in several launches if needed. When one fails, waits for the earlier launches,
/// because the caller may free the memory. `kernel()` returns the same as `kernel_of`.
template <class Kernel>
void launch_pieces(std::span<piece const> pieces, stream_ref on, Kernel kernel, char const* api) {
    pack_device_guard const here{on, api};
    piece_list list;
    bool is_queued = false;
    try {
        for (auto p = pieces.begin(); p != pieces.end();) {
            std::size_t largest = 0;
            for (list.count = 0; p != pieces.end() && list.count < piece_list::most; ++p) {
                if (p->bytes == 0) continue;
                list.pieces[list.count++] = *p;
                largest = std::max(largest, p->bytes);
            }
            if (list.count == 0) break;
            // Enough warps to fill a device, even for few pieces.
            list.parts = static_cast<std::uint32_t>(
                std::min<std::size_t>((largest - 1) / piece_list::segment + 1, piece_list::most_warps / list.count));
            launch(kernel(), dim3{(list.count * list.parts - 1) / pack_warps + 1, 1, 1}, &list, on.get());
            is_queued = true;
        }
    } catch (...) {
        relaxed_capture_mode const relaxed;
        if (is_queued) ignore(cudaStreamSynchronize(on.get()));
        throw;
    }
}

}  // namespace FERRY_NAMESPACE::cuda::detail
