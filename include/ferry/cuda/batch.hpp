// ferry: many scattered pieces in one call of the driver.
#pragma once

#include <ferry/cuda/capture.hpp>
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

namespace ferry::inline v0::cuda {

namespace detail {

/// Addresses and sizes in the form that the driver takes; pieces of 0 bytes are left out, since it refuses them.
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

/// Queues a batch on a stream whose device is current and which is not the legacy default stream: the driver refuses
/// that one.
inline void queue(batch& b, cudaStream_t s) {
    if (b.bytes.empty()) return;
    cudaMemcpyAttributes how{};
    how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    check(cudaMemcpyBatchAsync(b.dst.data(), b.src.data(), b.bytes.data(), b.bytes.size(), &how, &first, 1, s),
          "cudaMemcpyBatchAsync");
}

/// Queues a batch where `on` says. The legacy default stream waits for another one, `beside`, which waits for it.
template <class Beside>
void queue_on(batch& b, stream_token on, Beside beside) {
    if (on.which() != stream_token::kind::legacy_default) return queue(b, handle_of(on));
    stream_token const other = beside();
    cuda::order(on, other);  // mutant: cuda_batch_before
    queue(b, handle_of(other));
    try {
        cuda::order(other, on);  // mutant: cuda_batch_after
    } catch (...) {              // nothing may be queued when a copy throws
        beside_captures const quietly;
        ignore(cudaStreamSynchronize(handle_of(other)));  // mutant: cuda_batch_failed
        throw;
    }
}

/// The units of a plan as pieces.
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

/// Copies scattered pieces of device, pinned or managed memory in one call: half a microsecond for each instead of two,
/// and no kernel takes part. `pack_pieces` of pack.hpp is faster yet for many small ones.
/// Queues on `on` and does not block; sources and destinations stay until it got there. Copies on the legacy default
/// stream run beside it, on a stream made for the call: give a stream of your own. On failure nothing is queued.
/// Enables no access between GPUs: where pieces lie on another one than the stream's, the driver does what it can.
///
/// \throws error  errc::stream, capturing; what the driver reports;  std::bad_alloc
inline void copy_batch(std::span<piece const> pieces, stream_token on) {
    detail::require_stream(on, "ferry::cuda::copy_batch");
    std::int32_t const where = detail::device_of(on, "ferry::cuda::copy_batch");
    device_guard const current{where};
    detail::require_free_default(on, "ferry::cuda::copy_batch");
    detail::batch b{pieces.size()};
    for (auto const& p : pieces) b.add(p.dst, p.src, p.bytes);
    if (on.which() != stream_token::kind::legacy_default) return detail::queue(b, detail::handle_of(on));
    stream const other{where};
    detail::queue_on(b, on, [&] { return stream_token{other}; });
}

}  // namespace ferry::inline v0::cuda
