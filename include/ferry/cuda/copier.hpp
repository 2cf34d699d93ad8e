// ferry: the fast CUDA back end. Owns host threads and pinned memory, and selects the method of each copy.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>
#include <ferry/cuda/choose.hpp>
#include <ferry/cuda/copier_memory.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/queued_mark.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/copy_plan.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

class copier_engine;

}  // namespace detail

/// Pointer to a function that executes a plan with kernels on a stream of the current device, such as
/// `ferry::cuda::pack`.
using pack_function = void (*)(copy_plan const&, void* dst, void const* src, stream_ref);

/// Resources of a copier. The order of the members is stable, so that designated initialisers remain valid.
struct copier_options {
    int lanes = 0;                                    ///< host threads; 0 selects one for each processor, at most 12
    std::size_t most_pinned = std::size_t{64} << 20;  ///< maximum number of bytes of pinned memory for staging
    std::size_t most_kept = std::size_t{64} << 20;    ///< maximum number of bytes of pinned memory kept for reuse
    pack_function pack = nullptr;                     ///< kernels for strided copies; null for none
    /// Maximum size of a slab in bytes, at least 4 KiB. A slab is the part of a strided copy that the device packs or
    /// unpacks at once. It holds at least one row or element; a copy of sub-byte elements is always one slab. A copy
    /// uses up to two slabs of device memory. On each device, up to twice `slab_bytes` of this memory, or up to 32 MiB
    /// if that is more, stays allocated for later copies.
    std::size_t slab_bytes = detail::slab;
    /// Maximum number of bytes of host memory of released results that are kept for later results.
    std::size_t most_host_kept = std::size_t{1} << 30;
};

/// A back end (`ferry::back_end`) that owns lanes, which are host threads, and pinned memory. The calling thread queues
/// the copies between pinned memory and the device; it and the lanes copy between pinned and pageable memory.
///
/// Threads start, and memory is pinned, when a copy first needs them; they exist until the copier is destroyed. A copy
/// that finds no pinned memory within `copier_options::most_pinned` is one cudaMemcpyAsync. Host memory of released
/// results is kept for later results. The destructor joins the threads and releases that memory; no other call may be
/// in progress when it runs. Memory that the copier allocated may outlive it. Thread-safe; one copier suffices for a
/// program.
class copier {
   public:
    /// Constructs a copier without starting threads or calling CUDA.
    ///
    /// \param options  resources of the copier
    /// \throws std::bad_alloc  when host memory cannot be allocated
    FERRY_INLINE explicit copier(copier_options const& options = {});
    copier(copier const&) = delete;
    copier& operator=(copier const&) = delete;
    FERRY_INLINE ~copier();

    /// Returns whether the back end can copy from and to memory of a device.
    ///
    /// \param d  device to copy from or to
    /// \return   true for host, device, pinned and managed memory
    [[nodiscard]] constexpr bool reaches(device d) const noexcept {
        return d.type == device_type::cpu || uses_cuda_streams(d.type);
    }

    /// Allocates host, pinned, managed or device memory. Host and pinned memory come from the copier's pools.
    ///
    /// \param d      device of the memory
    /// \param bytes  size
    /// \param on     stream on which device memory is first used; see `memory`
    /// \return       memory that may outlive the copier
    /// \throws error           errc::out_of_memory, device, stream, capturing; errors of CUDA
    /// \throws std::bad_alloc  when host memory cannot be allocated
    [[nodiscard]] FERRY_INLINE copier_memory allocate(device d, std::size_t bytes, stream_token on);

    /// Copies the elements that a plan describes; an operation of the concept `back_end`.
    ///
    /// Copies within a GPU, between GPUs, and between a GPU and pinned or managed memory are queued on `on` and do not
    /// block. However, a copy goes through the host and blocks if neither the copy engine nor `pack` supports its
    /// layout (for example, a transposed copy between two GPUs without peer access), or if the device has no memory for
    /// packing. A copy to or from pageable memory waits for the work on `on`, and the call returns when the copy is
    /// complete. A copy between two sides of type cpu does not wait for `on`. No call waits for any other stream of the
    /// caller. On failure, no work of the copy is pending.
    ///
    /// \param plan  copy to execute
    /// \param dst   first element of the destination
    /// \param to    device of `dst`
    /// \param src   first element of the source
    /// \param from  device of `src`
    /// \param on    stream of either device; without one, the copy runs on a stream of the copier, and the call blocks
    /// \return      true when the copy is complete, false when it may still be pending
    /// \throws error           errc::foreign_pointer, device, capturing, out_of_memory; errc::stream, including when
    ///                         the stream belongs to neither device; errors of CUDA
    /// \throws std::bad_alloc  when host memory cannot be allocated
    FERRY_INLINE bool copy(copy_plan const& plan, void* dst, device to, void const* src, device from, stream_token on);

    /// Orders two streams without blocking the host, as `ferry::cuda::order` does.
    ///
    /// \param from  stream whose queued work runs first
    /// \param to    stream whose later work waits for it
    /// \throws error  errors of `ferry::cuda::order`
    void order(stream_token from, stream_token to) { cuda::order(from, to); }
    /// Blocks the host until the work queued on a stream has completed, as `ferry::cuda::wait` does.
    ///
    /// \param on  stream to wait for
    /// \throws error  errors of `ferry::cuda::wait`
    void wait(stream_token on) { cuda::wait(on); }
    /// Marks the work queued on a stream, so that the host can wait for it later. Does not block.
    ///
    /// \param on  CUDA stream
    /// \return    an object whose destructor waits for the work queued on `on` at the time of this call
    /// \throws error  errors of the constructor of `queued_mark`
    [[nodiscard]] queued_mark mark(stream_token on) { return queued_mark{on}; }

    /// Returns the number of lanes (host threads) that have been started.
    [[nodiscard]] FERRY_INLINE int started_lanes() const;
    /// Returns the size of the pinned memory that copies go through, and how much of it is not in use, in bytes.
    [[nodiscard]] FERRY_INLINE std::pair<std::size_t, std::size_t> pinned() const;
    /// Returns the size of the host memory that is kept for later results, in bytes.
    [[nodiscard]] FERRY_INLINE std::size_t host_kept() const;

   private:
    std::unique_ptr<detail::copier_engine> engine_;
};

}  // namespace FERRY_NAMESPACE::cuda

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/cuda/detail/copier.ipp>
#endif
