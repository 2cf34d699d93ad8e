// ferry: launches a pack job, wherever its kernels come from.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/detail/pack_job.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/copy_plan.hpp>

#include <cstddef>
#include <optional>

namespace ferry::inline v0::cuda::detail {

/// A stream that is being captured cannot be asked for its device: that must be the current one.
/// `kernel_of(job)` gives what cudaLaunchKernel takes: the address of a __global__ function, or a cudaKernel_t.
template <class KernelOf>
void launch_pack(copy_plan const& plan, void* dst, void const* src, stream_ref on, KernelOf kernel_of,
                 char const* api) {
    if (plan.kind == copy_kind::empty) return;
    if (on.get() == nullptr)
        ferry::detail::fail(
            errc::stream, api,
            message{"the stream is a null handle: say stream_ref::legacy_default() or per_thread_default() (R44)"});
    cudaStream_t const s = on.get();
    std::optional<device_guard> current;
    if (s != cudaStreamLegacy && s != cudaStreamPerThread) {
        if (capture_of(s) == 0) current.emplace(device_of_free(stream_token::cuda(s)));
    }
    if (plan.kind == copy_kind::contiguous) {
        check(cudaMemcpyAsync(static_cast<std::byte*>(dst) + plan.dst_offset,
                              static_cast<std::byte const*>(src) + plan.src_offset, static_cast<std::size_t>(plan.unit),
                              cudaMemcpyDefault, s),
              "cudaMemcpyAsync");
        return;
    }
    pack_job job;
    make_pack_job(plan, dst, src, job);
    void* parameters[] = {&job.arguments};
    check(cudaLaunchKernel(kernel_of(job), dim3{job.blocks, 1, 1}, dim3{pack_threads, 1, 1}, parameters, 0, s),
          "cudaLaunchKernel");
}

}  // namespace ferry::inline v0::cuda::detail
