// ferry: executes a copy plan with plain runtime copies.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/copies/pieces.hpp>
#include <ferry/cuda/detail/events/drain.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/host_copy.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace FERRY_NAMESPACE::cuda::detail {

/// The bytes that one side of a plan touches, relative to its first element.
struct extent_of_bytes {
    std::int64_t begin;
    std::int64_t size;
};

[[nodiscard]] constexpr extent_of_bytes reach(copy_plan const& p, std::int64_t offset, std::int64_t const* strides,
                                              std::int64_t unit) noexcept {
    std::int64_t low = offset, high = offset + unit;
    for (int i = 0; i < p.rank; ++i) {
        auto const far = (p.extents[i] - 1) * strides[i];
        (far < 0 ? low : high) += far;
    }
    if (p.counts_bits()) {
        low = low >= 0 ? low / 8 : -((7 - low) / 8);
        high = (high + 7) / 8;
    }
    return {low, high - low};
}

/// Returns whether queueing the copies of a plan is faster than copying through the host, assuming that a call takes as
/// long as copying 16 KiB of pageable memory.
[[nodiscard]] constexpr bool is_worth_queueing(copy_plan const& p) noexcept {
    if (p.counts_bits()) return false;
    auto const calls = count_copies(p, p.unit);
    return calls <= 16 || calls <= p.total_bytes / 16384;
}

/// Makes the destination of a plan in bytes compact. Returns its size in bytes.
constexpr std::int64_t compact_destination(copy_plan& p) noexcept {
    p.dst_offset = 0;
    std::int64_t step = p.unit;
    for (int i = p.rank; i-- > 0; step *= p.extents[i]) p.dst_strides[i] = step;
    return step;
}

/// Returns loops with positive strides that copy every element of the source of a plan in bytes into compact memory,
/// each element once. Changes the plan to read from that memory.
[[nodiscard]] constexpr loop_nest gather_source(copy_plan& p) noexcept {
    loop_nest forward;
    forward.src_offset = p.src_offset;
    p.src_offset = 0;
    int sorted[copy_plan::max_rank] = {};
    auto const far = [&](int i) { return p.src_strides[i] < 0 ? -p.src_strides[i] : p.src_strides[i]; };
    for (int i = 0; i < p.rank; ++i) {
        if (p.src_strides[i] == 0) continue;  // repeated: read once
        int k = forward.rank++;
        for (; k > 0 && far(sorted[k - 1]) < far(i); --k) sorted[k] = sorted[k - 1];
        sorted[k] = i;
    }
    std::int64_t step = p.unit;
    for (int k = forward.rank; k-- > 0;) {
        int const i = sorted[k];
        bool const backwards = p.src_strides[i] < 0;
        if (backwards) {
            forward.src_offset += (p.extents[i] - 1) * p.src_strides[i];
            p.src_offset += (p.extents[i] - 1) * step;
        }
        forward.extents[k] = p.extents[i];
        forward.src_strides[k] = far(i);
        forward.dst_strides[k] = step;
        p.src_strides[i] = backwards ? -step : step;
        step *= p.extents[i];
    }
    return forward;
}

/// Copies through the host, for memory of one or two GPUs: copies the source to the host, rearranges it, and copies the
/// result back. Slow, but supports every layout. Writes no byte between the destination's elements; bits of other
/// elements in shared bytes (R19) keep their values. `device_id` is the device of the stream. Memory of another GPU is
/// copied on a stream of that GPU, made for the call, so no peer access is needed. Blocks until the stream's work and
/// the copy are complete.
inline void copy_by_host(copy_plan p, void* dst, device to, void const* src, device from, std::int32_t device_id,
                         cudaStream_t s) {
    bool const dst_far = to.type == device_type::cuda, src_far = from.type == device_type::cuda;
    auto const size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    std::int32_t const other = to.id == device_id ? from.id : to.id;
    std::optional<stream> other_stream;
    // The runtime resolves addresses in the context of the current device, regardless of the stream.
    auto const device_of_stream = [&](cudaStream_t on) {
        return other_stream && on == other_stream->get() ? other : device_id;
    };
    auto const copy_now = [&](void* d, void const* from_here, std::int64_t n, cudaStream_t on) {
        device_guard const current{device_of_stream(on)};
        check(cudaMemcpyAsync(d, from_here, size(n), cudaMemcpyDefault, on), "cudaMemcpyAsync");
    };
    auto const copy_all = [&](loop_nest const& nest, void* d, void const* from_here, cudaStream_t on) {
        device_guard const current{device_of_stream(on)};
        copy_pieces(nest, p.unit, d, from_here, {}, on);
    };
    auto const wait_for = [](cudaStream_t on) {
        relaxed_capture_mode const relaxed;
        check(cudaStreamSynchronize(on), "cudaStreamSynchronize");
    };
    cudaStream_t dst_on = s, src_on = s;
    if (dst_far && src_far && to.id != from.id) {
        wait_for(s);
        (to.id == device_id ? src_on : dst_on) = other_stream.emplace(other).get();
    }
    auto const finish = [&] {
        wait_for(src_on);
        if (dst_on != src_on) wait_for(dst_on);
    };
    auto const src_reach = reach(p, p.src_offset, p.src_strides, p.unit);
    auto const dst_reach = reach(p, p.dst_offset, p.dst_strides, p.unit + p.zero_bits);
    // Copying the gaps takes less time than separate calls.
    bool const whole = p.counts_bits() || src_reach.size <= 4 * p.total_bytes;
    loop_nest const back = p;
    loop_nest gathered;
    std::int64_t src_bytes = src_reach.size, dst_bytes = dst_reach.size;
    if (src_far && !whole) {
        gathered = gather_source(p);
        src_bytes = p.unit;
        for (int i = 0; i < gathered.rank; ++i) src_bytes *= gathered.extents[i];
    }
    if (dst_far && !p.counts_bits()) dst_bytes = compact_destination(p);
    buffer<host_space> const near_src{src_far ? size(src_bytes) : 0}, near_dst{dst_far ? size(dst_bytes) : 0};
    drain from_src{src_on}, to_dst{dst_on};  // before the buffers are freed
    void* near = dst;
    if (src_far && !whole) {
        copy_all(gathered, near_src.data(), src, src_on);
        src = near_src.data();
    } else if (src_far) {
        copy_now(near_src.data(), static_cast<std::byte const*>(src) + src_reach.begin, src_bytes, src_on);
        src = static_cast<std::byte const*>(near_src.data()) - src_reach.begin;
    }
    void* const shared_bytes = static_cast<std::byte*>(dst) + dst_reach.begin;
    if (dst_far && p.counts_bits()) {
        copy_now(near_dst.data(), shared_bytes, dst_bytes, dst_on);
        near = static_cast<std::byte*>(near_dst.data()) - dst_reach.begin;
    } else if (dst_far) {
        near = near_dst.data();
    }
    finish();
    from_src.done();
    copy_on_host(p, near, src);
    if (dst_far) {
        if (p.counts_bits()) {
            copy_now(shared_bytes, near_dst.data(), dst_bytes, dst_on);
        } else {
            loop_nest scatter = back;
            scatter.src_offset = 0;
            for (int i = 0; i < p.rank; ++i) scatter.src_strides[i] = p.dst_strides[i];
            copy_all(scatter, dst, near_dst.data(), dst_on);
        }
        wait_for(dst_on);  // the copy reads a buffer that is freed here
    }
    to_dst.done();
}

/// Executes a plan: queues it on a stream whose device, `device_id`, is current, or copies through the host. When it
/// throws, none of its work is pending.
inline void transfer(copy_plan const& p, void* dst, device to, void const* src, device from, std::int32_t device_id,
                     cudaStream_t s) {
    auto const is_host = [](device d) { return d.type == device_type::cpu || d.type == device_type::cuda_host; };
    bool const between_gpus = to.type == device_type::cuda && from.type == device_type::cuda && to.id != from.id;
    if (p.kind == copy_kind::empty) return;
    // CUDA also performs host-to-host copies on the host.
    if ((is_host(to) && is_host(from)) || !is_worth_queueing(p))
        return copy_by_host(p, dst, to, src, from, device_id, s);
    drain pieces{s};
    copy_pieces(p, p.unit, dst, src, {between_gpus, to.id, from.id}, s);
    pieces.done();
}

}  // namespace FERRY_NAMESPACE::cuda::detail
