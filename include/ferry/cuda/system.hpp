// ferry: the CUDA back end without state: plain copies, plain memory.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/drain.hpp>
#include <ferry/cuda/facts.hpp>
#include <ferry/cuda/memory.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/peers.hpp>
#include <ferry/cuda/queued_mark.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/cuda/transfer.hpp>
#include <ferry/space/back_end.hpp>

#include <cstddef>
#include <cstdint>

namespace ferry::inline v0::cuda {
namespace detail {

/// Refuses memory that is not where its struct says, before a copy reads it. What is said to be on the host may be
/// pinned or managed (R38).
inline void require_place(void const* p, device said, char const* api) {
    if (p == nullptr) return;
    device const is = where_is(p);
    bool const fits = is.type == said.type ||
                      (said.type == device_type::cuda && is.type == device_type::cuda_managed) ||
                      (said.type == device_type::cpu && is_host_accessible(is));
    if (!fits)
        ferry::detail::fail(errc::foreign_pointer, api,
                            message{"the tensor says that its data is on "}
                                << name(said.type) << ", the driver that it is on " << name(is.type)
                                << ": its producer names the wrong device, or has freed it");
    if (said.type == device_type::cuda && is.type == device_type::cuda && is.id != said.id)
        ferry::detail::fail(errc::device, api,
                            message{"the tensor says that its data is on cuda:"}
                                << said.id << ", the driver that it is on cuda:" << is.id
                                << ": its producer names the wrong device");
}

/// Refuses a stream of a GPU that takes no part in a copy. Between host memory any does.
inline void require_side(std::int32_t stream_id, device to, device from, char const* api) {
    bool const to_gpu = to.type == device_type::cuda, from_gpu = from.type == device_type::cuda;
    if ((!to_gpu && !from_gpu) || (to_gpu && to.id == stream_id) || (from_gpu && from.id == stream_id)) return;
    fail_other_device(stream_id, to_gpu ? to.id : from.id, api);
}

/// The device on which a copy without a stream runs.
[[nodiscard]] inline std::int32_t device_for(device to, device from) {
    if (to.type == device_type::cuda) return to.id;
    if (from.type == device_type::cuda) return from.id;
    int current = 0;
    check(cudaGetDevice(&current), "cudaGetDevice");
    return current;
}

}  // namespace detail

/// The CUDA back end that owns nothing: every verb is plain calls of the runtime, on the streams that it is given.
/// Copies between GPUs go from peer to peer where the machine allows it, and through the host else. Never waits for
/// another stream of the caller's, but as CUDA's default streams wait for each other. The host waits for that stream
/// when it copies from or between host memory, or a layout that no few pitched copies can carry, which goes through the
/// host; without a stream work runs on the per-thread default stream. Stateless but for what each thread keeps: one
/// event for each device, and which GPUs reach each other. Thread-safe. `copier` is the fast one.
struct system_back_end {
    [[nodiscard]] constexpr bool reaches(device d) const noexcept {
        return d.type == device_type::cpu || uses_cuda_streams(d.type);
    }

    [[nodiscard]] memory allocate(device d, std::size_t bytes, stream_token on) const { return {d, bytes, on}; }

    /// \throws error  errc::foreign_pointer, device, capturing, stream (of another device than both sides, too); what
    ///                the driver reports. Then nothing is queued.
    bool copy(copy_plan const& plan, void* dst, device to, void const* src, device from, stream_token on) const {
        if (plan.kind == copy_kind::empty) return true;
        if (to.type == device_type::cpu && from.type == device_type::cpu)
            return host_only.copy(plan, dst, to, src, from, on);
        bool const queued = on.names_stream();
        if (queued) detail::require_stream(on, "ferry::cuda::system");
        detail::beside_captures const quietly{detail::driver()};
        detail::require_place(dst, to, "ferry::cuda::system");
        detail::require_place(src, from, "ferry::cuda::system");  // mutant: cuda_copy_place
        std::int32_t const where = queued ? detail::device_of(on, "ferry::cuda::system") : detail::device_for(to, from);
        cudaStream_t const s = queued ? detail::handle_of(on) : cudaStreamPerThread;
        detail::require_side(where, to, from, "ferry::cuda::system");  // mutant: cuda_system_side
        device_guard const current{where};
        // mutant: cuda_copy_capture
        if (!queued || detail::is_default(on)) detail::require_no_capture(s, "ferry::cuda::system");
        static_cast<void>(detail::enable_peers(to, dst, from, src));
        detail::transfer(plan, dst, to, src, from, where, s);
        // The caller may reuse host memory at once, and no copy promises to have read it, least of all when it is
        // pinned.
        if (queued && from.type != device_type::cpu) return false;  // mutant: cuda_copy_host_source, cuda_copy_says
        // mutant: cuda_copy_failed
        detail::drain reading{s};  // also when the wait fails: the caller frees its memory then
        check(cudaStreamSynchronize(s), "cudaStreamSynchronize");  // mutant: cuda_copy_wait
        reading.done();
        return true;
    }

    void order(stream_token from, stream_token to) const { cuda::order(from, to); }
    void wait(stream_token on) const { cuda::wait(on); }
    [[nodiscard]] queued_mark mark(stream_token on) const { return queued_mark{on}; }
};

/// The back end to pass where nothing needs to be kept: plain copies on the streams that it is given.
inline constexpr system_back_end system{};

}  // namespace ferry::inline v0::cuda
