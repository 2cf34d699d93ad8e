// ferry: carries out a copy plan by the plain copies of the runtime.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/host_copy.hpp>

#include <cstddef>
#include <cstdint>

namespace ferry::cuda::detail {

/// The bytes that one side of a plan touches, counted from its first element.
struct extent_of_bytes {
    std::int64_t begin;
    std::int64_t size;
};

[[nodiscard]] constexpr extent_of_bytes reach(copy_plan const& p, std::int64_t offset, std::int64_t const* strides, std::int64_t unit) noexcept {
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

/// Whether a level of loops can be one pitched copy: rows apart by at least their width, on both sides.
[[nodiscard]] constexpr bool is_pitched(copy_plan const& p) noexcept {
    if (p.kind != copy_kind::rows && p.kind != copy_kind::gather && p.kind != copy_kind::transpose) return false;
    auto const in = p.rank - 1;
    return p.dst_strides[in] >= p.unit && p.src_strides[in] >= p.unit;
}

/// A plan as pitched copies, one for each index of all loops but the innermost.
inline void copy_pitched(copy_plan const& p, std::byte* dst, std::byte const* src, cudaStream_t s) {
    std::int64_t index[copy_plan::max_rank] = {};
    int const outer = p.rank - 1;
    dst += p.dst_offset;
    src += p.src_offset;
    for (;;) {
        check(cudaMemcpy2DAsync(dst, static_cast<std::size_t>(p.dst_strides[outer]), src, static_cast<std::size_t>(p.src_strides[outer]),
                                static_cast<std::size_t>(p.unit), static_cast<std::size_t>(p.extents[outer]), cudaMemcpyDefault, s),
              "cudaMemcpy2DAsync");
        int i = outer;
        while (--i >= 0) {
            dst += p.dst_strides[i];
            src += p.src_strides[i];
            if (++index[i] < p.extents[i]) break;
            dst -= p.dst_strides[i] * p.extents[i];
            src -= p.src_strides[i] * p.extents[i];
            index[i] = 0;
        }
        if (i < 0) return;
    }
}

/// Brings both sides to the host, copies there, and takes the result back: slow, and right for every layout. Blocks the host.
inline void copy_by_host(copy_plan const& p, void* dst, device to, void const* src, device from, cudaStream_t s) {
    bool const dst_far = to.type == device_type::cuda, src_far = from.type == device_type::cuda;
    auto const unit = p.unit;
    auto const dst_reach = reach(p, p.dst_offset, p.dst_strides, unit), src_reach = reach(p, p.src_offset, p.src_strides, unit);
    buffer<host_space> const near_src{src_far ? static_cast<std::size_t>(src_reach.size) : 0};
    buffer<host_space> const near_dst{dst_far ? static_cast<std::size_t>(dst_reach.size) : 0};
    auto const copy_now = [&](void* d, void const* from_here, std::int64_t n) {
        check(cudaMemcpyAsync(d, from_here, static_cast<std::size_t>(n), cudaMemcpyDefault, s), "cudaMemcpyAsync");
    };
    void* const far_dst = static_cast<std::byte*>(dst) + dst_reach.begin;
    if (src_far) {
        copy_now(near_src.data(), static_cast<std::byte const*>(src) + src_reach.begin, src_reach.size);
        src = static_cast<std::byte const*>(near_src.data()) - src_reach.begin;
    }
    if (dst_far) {  // what lies between its elements must survive
        copy_now(near_dst.data(), far_dst, dst_reach.size);
        dst = static_cast<std::byte*>(near_dst.data()) - dst_reach.begin;
    }
    check(cudaStreamSynchronize(s), "cudaStreamSynchronize");
    copy_on_host(p, dst, src);
    if (!dst_far) return;
    copy_now(far_dst, near_dst.data(), dst_reach.size);
    check(cudaStreamSynchronize(s), "cudaStreamSynchronize");
}

/// Queues a plan on a stream whose device is current.
inline void transfer(copy_plan const& p, void* dst, device to, void const* src, device from, cudaStream_t s) {
    switch (p.kind) {
        case copy_kind::empty: return;
        case copy_kind::contiguous:
            check(cudaMemcpyAsync(static_cast<std::byte*>(dst) + p.dst_offset, static_cast<std::byte const*>(src) + p.src_offset,
                                  static_cast<std::size_t>(p.unit), cudaMemcpyDefault, s),
                  "cudaMemcpyAsync");
            return;
        default:
            if (is_pitched(p)) copy_pitched(p, static_cast<std::byte*>(dst), static_cast<std::byte const*>(src), s);
            else copy_by_host(p, dst, to, src, from, s);
    }
}

}  // namespace ferry::cuda::detail
