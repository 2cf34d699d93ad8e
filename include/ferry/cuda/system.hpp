// ferry: the stateless CUDA back end, with plain copies and allocations.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/copies/transfer.hpp>
#include <ferry/cuda/detail/events/drain.hpp>
#include <ferry/cuda/detail/peers.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/facts.hpp>
#include <ferry/cuda/memory.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/queued_mark.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/back_end.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

/// Throws when memory is not on the device that its DLTensor states. Memory described as cpu may be pinned or managed
/// (R38), and memory described as cuda may be managed.
inline void require_memory_on(void const* p, device stated, char const* api) {
    if (p == nullptr) return;
    device const is = device_of_pointer(p);
    bool const fits = is.type == stated.type ||
                      (stated.type == device_type::cuda && is.type == device_type::cuda_managed) ||
                      (stated.type == device_type::cpu && is_host_accessible(is));
    if (!fits)
        ferry::detail::fail(errc::foreign_pointer, api,
                            message{"the tensor has device type "}
                                << name(stated.type) << ", but its memory is " << name(is.type)
                                << ": correct the device that the producer reports, or check that it has not freed the "
                                   "memory");
    if (stated.type == device_type::cuda && is.type == device_type::cuda && is.id != stated.id)
        ferry::detail::fail(errc::device, api,
                            message{"the tensor has device cuda:"}
                                << stated.id << ", but its memory is on cuda:" << is.id
                                << ": correct the device that the producer reports");
}

/// Throws when a stream belongs to a GPU that holds neither side of a copy. Host-to-host copies accept any stream.
inline void require_participating_stream(std::int32_t stream_id, device to, device from, char const* api) {
    bool const to_gpu = to.type == device_type::cuda, from_gpu = from.type == device_type::cuda;
    if ((!to_gpu && !from_gpu) || (to_gpu && to.id == stream_id) || (from_gpu && from.id == stream_id)) return;
    fail_other_device(stream_id, to_gpu ? to.id : from.id, api);
}

/// Returns the device whose stream executes a copy for which the caller passed no stream.
[[nodiscard]] inline std::int32_t device_for(device to, device from) {
    if (to.type == device_type::cuda) return to.id;
    if (from.type == device_type::cuda) return from.id;
    int current = 0;
    check(cudaGetDevice(&current), "cudaGetDevice");
    return current;
}

}  // namespace detail

/// The stateless CUDA back end. Each operation calls the CUDA runtime with the streams that are passed to it.
/// Thread-safe. For better performance, use `copier`.
///
/// Copies between GPUs use peer access where the machine supports it; otherwise the driver stages them. No call waits
/// for other streams of the caller, except where CUDA's default streams synchronise implicitly. If both sides have type
/// cpu, the calling thread copies, without waiting for the stream. For other copies, the host waits for the stream if
/// the source has type cpu, if the destination is pageable memory, or if the copy goes through the host. A copy goes
/// through the host if both sides are host memory, if its elements are not byte-aligned, or if the layout would need
/// many pitched copies. Without a stream, work runs on the per-thread default stream. Each thread caches one event for
/// each device, and the peer-access status of pairs of GPUs.
struct system_back_end {
    /// Returns whether the back end can copy from and to memory of a device.
    ///
    /// \param d  device to copy from or to
    /// \return   true for host, device, pinned and managed memory
    [[nodiscard]] constexpr bool reaches(device d) const noexcept {
        return d.type == device_type::cpu || uses_cuda_streams(d.type);
    }

    /// Allocates host, pinned, managed or device memory.
    ///
    /// \param d      device of the memory
    /// \param bytes  size
    /// \param on     stream on which the memory is first used; see `memory`
    /// \return       owner of the memory
    /// \throws error           errors of the constructor of `memory`
    /// \throws std::bad_alloc  when host memory cannot be allocated
    [[nodiscard]] memory allocate(device d, std::size_t bytes, stream_token on) const { return {d, bytes, on}; }

    /// Copies the elements that a plan describes; an operation of the concept `back_end`. On failure no work of the
    /// copy is pending.
    ///
    /// \param plan  copy to execute
    /// \param dst   first element of the destination
    /// \param to    device of `dst`
    /// \param src   first element of the source
    /// \param from  device of `src`
    /// \param on    stream of either device; without one, the call blocks
    /// \return      true when the copy is complete, false when it may still be pending
    /// \throws error           errc::foreign_pointer, device, capturing; errc::stream, including when the stream
    ///                         belongs to neither device; errors of CUDA
    /// \throws std::bad_alloc  when host memory cannot be allocated
    bool copy(copy_plan const& plan, void* dst, device to, void const* src, device from, stream_token on) const {
        if (plan.kind == copy_kind::empty) return true;
        if (to.type == device_type::cpu && from.type == device_type::cpu)
            return host_only.copy(plan, dst, to, src, from, on);
        bool const queued = on.names_stream();
        if (queued) detail::require_stream(on, "ferry::cuda::system");
        detail::relaxed_capture_mode const relaxed{detail::driver()};
        detail::require_memory_on(dst, to, "ferry::cuda::system");
        detail::require_memory_on(src, from, "ferry::cuda::system");
        std::int32_t const device_id =
            queued ? detail::device_of(on, "ferry::cuda::system") : detail::device_for(to, from);
        cudaStream_t const s = queued ? detail::handle_of(on) : cudaStreamPerThread;
        detail::require_participating_stream(device_id, to, from, "ferry::cuda::system");
        device_guard const current{device_id};
        if (!queued || detail::is_default(on)) detail::require_no_capture(s, "ferry::cuda::system");
        static_cast<void>(detail::enable_peers(to, dst, from, src));
        detail::transfer(plan, dst, to, src, from, device_id, s);
        // The caller may reuse host memory when the call returns, but an asynchronous copy may not have read it yet, in
        // particular if the memory is pinned.
        if (queued && from.type != device_type::cpu) return false;
        detail::drain reading{s};  // waits again when the wait fails: the caller may free its memory
        check(cudaStreamSynchronize(s), "cudaStreamSynchronize");
        reading.done();
        return true;
    }

    /// Orders two streams without blocking the host, as `ferry::cuda::order` does.
    ///
    /// \param from  stream whose queued work runs first
    /// \param to    stream whose later work waits for it
    /// \throws error  errors of `ferry::cuda::order`
    void order(stream_token from, stream_token to) const { cuda::order(from, to); }
    /// Blocks the host until the work queued on a stream has completed, as `ferry::cuda::wait` does.
    ///
    /// \param on  stream to wait for
    /// \throws error  errors of `ferry::cuda::wait`
    void wait(stream_token on) const { cuda::wait(on); }
    /// Marks the work queued on a stream, so that the host can wait for it later. Does not block.
    ///
    /// \param on  CUDA stream
    /// \return    an object whose destructor waits for the work queued on `on` at the time of this call
    /// \throws error  errors of the constructor of `queued_mark`
    [[nodiscard]] queued_mark mark(stream_token on) const { return queued_mark{on}; }
};

/// Instance of the stateless back end.
inline constexpr system_back_end system{};

}  // namespace FERRY_NAMESPACE::cuda
