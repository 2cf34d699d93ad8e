// ferry: the CUDA back end without state: plain copies, plain memory.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/facts.hpp>
#include <ferry/cuda/memory.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/cuda/transfer.hpp>
#include <ferry/space/back_end.hpp>

#include <cstddef>

namespace ferry::cuda {
namespace detail {

/// Refuses memory that is not where its struct says, before a copy reads it.
inline void require_place(void const* p, device said) {
    if (said.type == device_type::cpu || p == nullptr) return;
    device const is = where_is(p);
    bool const fits = is.type == said.type || (said.type == device_type::cuda && is.type == device_type::cuda_managed);
    if (!fits)
        ferry::detail::fail(errc::foreign_pointer, "ferry::cuda",
                            message{"the tensor says that its data is on "} << name(said.type) << ", the driver that it is on " << name(is.type)
                                << ": its producer names the wrong device");
    if (said.type == device_type::cuda && is.type == device_type::cuda && is.id != said.id)
        ferry::detail::fail(errc::device, "ferry::cuda",
                            message{"the tensor says that its data is on cuda:"} << said.id << ", the driver that it is on cuda:" << is.id
                                << ": its producer names the wrong device");
}

/// Lets two devices read each other's memory; told again, the driver says so and nothing happens.
inline void enable_peers(std::int32_t from, std::int32_t to) {
    int can = 0;
    check(cudaDeviceCanAccessPeer(&can, to, from), "cudaDeviceCanAccessPeer");
    if (can == 0) return;  // the driver stages the copy
    device_guard const on{to};
    cudaError_t const e = cudaDeviceEnablePeerAccess(from, 0);
    if (e == cudaErrorPeerAccessAlreadyEnabled) static_cast<void>(cudaGetLastError());
    else check(e, "cudaDeviceEnablePeerAccess");
}

}  // namespace detail

/// The CUDA back end that owns nothing: every verb is plain calls of the runtime, on the streams that it is given. Copies
/// between GPUs go from peer to peer where the machine allows it; layouts that no pitched copy can carry go through the host, which
/// then blocks. Stateless but for one event per thread and device; thread-safe. `copier` is the fast one.
struct system_back_end {
    [[nodiscard]] constexpr bool reaches(device d) const noexcept { return d.type == device_type::cpu || uses_cuda_streams(d.type); }

    [[nodiscard]] memory allocate(device d, std::size_t bytes, stream_token on) const { return {d, bytes, on}; }

    /// \throws error  errc::foreign_pointer, device, capturing, stream; what the driver reports
    void copy(copy_plan const& plan, void* dst, device to, void const* src, device from, stream_token on) const {
        if (plan.kind == copy_kind::empty) return;
        if (to.type == device_type::cpu && from.type == device_type::cpu) return copy_on_host(plan, dst, src);
        detail::require_place(dst, to);
        detail::require_place(src, from);
        if (to.type == device_type::cuda && from.type == device_type::cuda && to.id != from.id) detail::enable_peers(from.id, to.id);
        bool const queued = on.names_stream();
        std::int32_t const where = queued ? detail::device_of(on) : to.type == device_type::cuda ? to.id : from.type == device_type::cuda ? from.id : 0;
        device_guard const current{where};
        cudaStream_t const s = queued ? detail::handle_of(on) : cudaStreamPerThread;
        detail::require_no_capture(s, "ferry::cuda::system");
        detail::transfer(plan, dst, to, src, from, s);
        if (!queued) check(cudaStreamSynchronize(s), "cudaStreamSynchronize");
    }

    void order(stream_token from, stream_token to) const { cuda::order(from, to); }
    void wait(stream_token on) const { cuda::wait(on); }
};

inline constexpr system_back_end system{};

}  // namespace ferry::cuda
