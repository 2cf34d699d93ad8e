// ferry: copies many scattered pieces in one call to cudaMemcpyBatchAsync.
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/toolkit.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/piece.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/copy_plan.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace FERRY_NAMESPACE::cuda {

namespace detail {

/// The arguments of cudaMemcpyBatchAsync. Leaves out pieces of 0 bytes, which the call rejects.
struct batch {
    std::vector<void*> dst;
    std::vector<void const*> src;
    std::vector<std::size_t> bytes;

    explicit batch(std::size_t count) {
        dst.reserve(count);
        src.reserve(count);
        bytes.reserve(count);
    }
    void add(void* to, void const* from, std::size_t n) {
        if (n == 0) return;
        dst.push_back(to);
        src.push_back(from);
        bytes.push_back(n);
    }
};

/// Queues a batch on a stream of the current device, except the legacy default stream, which the driver rejects.
inline void queue(batch& b, cudaStream_t s) {
    if (b.bytes.empty()) return;
    try {
        memcpy_batch(b.dst.data(), b.src.data(), b.bytes.data(), b.bytes.size(), s);
    } catch (...) {
        if constexpr (batch_is_loop) {  // after a failure no work may be pending
            relaxed_capture_mode const relaxed;
            ignore(cudaStreamSynchronize(s));
        }
        throw;
    }
}

/// Queues a batch on `on`, whose device is `device_id`. A batch on the legacy default stream runs on a stream of its
/// own, after the earlier work on `on` and before its later work.
inline void queue_on(batch& b, stream_token on, std::int32_t device_id) {
    if (on.which() != stream_token::kind::legacy_default) return queue(b, handle_of(on));
    stream const other{device_id};
    cuda::order(on, other);
    queue(b, other.get());
    try {
        cuda::order(other, on);
    } catch (...) {  // after a failure no work may be pending
        relaxed_capture_mode const relaxed;
        ignore(cudaStreamSynchronize(other.get()));
        throw;
    }
}

/// Lists each unit of a plan as one piece.
[[nodiscard]] inline batch pieces_of(copy_plan const& p, void* dst, void const* src) {
    std::int64_t count = 1;
    for (int i = 0; i < p.rank; ++i) count *= p.extents[i];
    batch b{static_cast<std::size_t>(count)};
    for (std::int64_t n = 0; n < count; ++n) {
        std::int64_t to = p.dst_offset, from = p.src_offset, rest = n;
        for (int i = p.rank; i-- > 0; rest /= p.extents[i]) {
            to += rest % p.extents[i] * p.dst_strides[i];
            from += rest % p.extents[i] * p.src_strides[i];
        }
        b.add(static_cast<std::byte*>(dst) + to, static_cast<std::byte const*>(src) + from,
              static_cast<std::size_t>(p.unit));
    }
    return b;
}

}  // namespace detail

/// Copies scattered pieces of device, pinned or managed memory with one call to cudaMemcpyBatchAsync. This takes less
/// than half as long as copying each piece with cudaMemcpyAsync (docs/cuda.md, "Measurements"). With a CUDA Toolkit
/// before 12.8, this function copies each piece with cudaMemcpyAsync. For many small pieces, `pack_pieces` (pack.hpp)
/// is faster.
///
/// Queued on `on`; does not block. Sources and destinations must stay valid until the copies have completed. The driver
/// does not accept the legacy default stream for a batch. If `on` is that stream, the batch runs on a stream created
/// for the call, after the earlier work on `on` and before its later work. Does not enable peer access. On failure,
/// none of the copies is pending.
///
/// \param pieces  copies, accessed only during the call; no destination may overlap a source or another destination
/// \param on      CUDA stream
/// \throws error           errc::stream, capturing; errors of CUDA
/// \throws std::bad_alloc  when host memory cannot be allocated
inline void copy_batch(std::span<piece const> pieces, stream_token on) {
    detail::require_stream(on, "ferry::cuda::copy_batch");
    std::int32_t const device_id = detail::device_of(on, "ferry::cuda::copy_batch");
    device_guard const current{device_id};
    detail::require_uncaptured_default(on, "ferry::cuda::copy_batch");
    detail::batch b{pieces.size()};
    for (auto const& p : pieces) b.add(p.dst, p.src, p.bytes);
    detail::queue_on(b, on, device_id);
}

}  // namespace FERRY_NAMESPACE::cuda
