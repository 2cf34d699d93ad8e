// ferry: carries out a copy plan by the plain copies of the runtime.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/drain.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/pieces.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/host_copy.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace ferry::inline v0::cuda::detail {

/// The bytes that one side of a plan touches, counted from its first element.
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

/// Whether a plan is better queued copy by copy than taken through the host: a call costs about what 16 KiB of pageable
/// memory do.
[[nodiscard]] constexpr bool is_worth_queueing(copy_plan const& p) noexcept {
    if (p.counts_bits()) return false;
    auto const calls = count_copies(p, p.unit);
    return calls <= 16 || calls <= p.total_bytes / 16384;
}

/// Gives the destination of a plan in bytes the compact layout of its loops. Returns the bytes that it then takes.
constexpr std::int64_t compact_destination(copy_plan& p) noexcept {
    p.dst_offset = 0;
    std::int64_t step = p.unit;
    for (int i = p.rank; i-- > 0; step *= p.extents[i]) p.dst_strides[i] = step;
    return step;
}

/// The forward copy of what a plan in bytes reads, each element once, into compact memory; the plan then reads from
/// there.
[[nodiscard]] constexpr loop_nest gather_source(copy_plan& p) noexcept {
    loop_nest forward;
    forward.src_offset = p.src_offset;
    p.src_offset = 0;
    int order[copy_plan::max_rank] = {};
    auto const far = [&](int i) { return p.src_strides[i] < 0 ? -p.src_strides[i] : p.src_strides[i]; };
    for (int i = 0; i < p.rank; ++i) {
        if (p.src_strides[i] == 0) continue;  // repeated: read once
        int k = forward.rank++;
        for (; k > 0 && far(order[k - 1]) < far(i); --k) order[k] = order[k - 1];
        order[k] = i;
    }
    std::int64_t step = p.unit;
    for (int k = forward.rank; k-- > 0;) {
        int const i = order[k];
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

/// Copies by the host what lies on a GPU or two: brings the source, copies there, takes the result back. Slow, right
/// for every layout, and writes no byte between the destination's elements; only of bytes that elements share with
/// others (R19) the other bits are written back as they were. `where` is the device of the stream; memory of another
/// GPU is carried by that one, on a stream made for the call, so that neither must reach the other's. Blocks the host
/// until the stream has run, and has finished when it returns.
inline void copy_by_host(copy_plan p, void* dst, device to, void const* src, device from, std::int32_t where,
                         cudaStream_t s) {
    bool const dst_far = to.type == device_type::cuda, src_far = from.type == device_type::cuda;
    auto const size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    std::int32_t const other = to.id == where ? from.id : to.id;
    std::optional<stream> beside;
    // The runtime looks at the current device to judge an address, whatever the stream.
    auto const device_of_stream = [&](cudaStream_t on) { return beside && on == beside->get() ? other : where; };
    auto const copy_now = [&](void* d, void const* from_here, std::int64_t n, cudaStream_t on) {
        device_guard const current{device_of_stream(on)};
        check(cudaMemcpyAsync(d, from_here, size(n), cudaMemcpyDefault, on), "cudaMemcpyAsync");
    };
    auto const copy_all = [&](loop_nest const& nest, void* d, void const* from_here, cudaStream_t on) {
        device_guard const current{device_of_stream(on)};
        copy_pieces(nest, p.unit, d, from_here, {}, on);
    };
    auto const wait_for = [](cudaStream_t on) {
        beside_captures const quietly;
        check(cudaStreamSynchronize(on), "cudaStreamSynchronize");
    };
    cudaStream_t dst_on = s, src_on = s;
    if (dst_far && src_far && to.id != from.id) {  // mutant: cuda_by_host_beside
        wait_for(s);
        (to.id == where ? src_on : dst_on) = beside.emplace(other).get();
    }
    auto const finish = [&] {
        wait_for(src_on);
        if (dst_on != src_on) wait_for(dst_on);
    };
    auto const src_reach = reach(p, p.src_offset, p.src_strides, p.unit);
    auto const dst_reach = reach(p, p.dst_offset, p.dst_strides, p.unit + p.zero_bits);
    // What lies between costs less than the calls.
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
    // mutant: cuda_by_host_unwind
    drain from_src{src_on}, to_dst{dst_on};  // before they go
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
    finish();  // mutant: cuda_by_host_before
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
        // mutant: cuda_by_host_after
        wait_for(dst_on);  // it reads what dies here
    }
    to_dst.done();
}

/// Queues a plan on a stream whose device, `where`, is current, or carries it out. When it throws, nothing of it runs
/// any more.
inline void transfer(copy_plan const& p, void* dst, device to, void const* src, device from, std::int32_t where,
                     cudaStream_t s) {
    auto const is_host = [](device d) { return d.type == device_type::cpu || d.type == device_type::cuda_host; };
    bool const between_gpus = to.type == device_type::cuda && from.type == device_type::cuda && to.id != from.id;
    if (p.kind == copy_kind::empty) return;
    // From host to host CUDA copies by the host as well.
    if ((is_host(to) && is_host(from)) || !is_worth_queueing(p)) return copy_by_host(p, dst, to, src, from, where, s);
    drain pieces{s};  // mutant: cuda_transfer_unwind
    copy_pieces(p, p.unit, dst, src, {between_gpus, to.id, from.id}, s);
    pieces.done();
}

}  // namespace ferry::inline v0::cuda::detail
