// ferry: the density of a strided plan, and its division into slabs.
#pragma once

#include <ferry/cuda/detail/copies/transfer.hpp>
#include <ferry/space/copy_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::cuda::detail {

/// Returns the number of bits or bytes that one unit of a plan writes; it reads `unit` bits or bytes.
[[nodiscard]] constexpr std::int64_t written(copy_plan const& p) noexcept { return p.unit + p.zero_bits; }

/// Returns whether one side of a plan has no stride of 0, and the total size of its units equals the size of the range
/// that they span. A destination is then dense; for a source, use `is_dense_source`.
[[nodiscard]] constexpr bool is_dense(copy_plan const& p, std::int64_t offset, std::int64_t const* strides,
                                      std::int64_t unit) noexcept {
    if (p.kind == copy_kind::empty) return false;
    std::int64_t low = offset, high = offset + unit, covered = unit;
    for (int i = 0; i < p.rank; ++i) {
        auto const far = (p.extents[i] - 1) * strides[i];
        (far < 0 ? low : high) += far;
        if (strides[i] == 0) return false;
        covered *= p.extents[i];
    }
    if (p.counts_bits() && (low % 8 != 0 || high % 8 != 0)) return false;
    // The elements of a destination do not overlap; if those of a source do, the sum may match by chance.
    return covered == high - low;
}

/// Returns whether a source covers every byte between its first and its last one exactly once: each stride, in
/// ascending order, must equal the size of the range that the loops with smaller strides cover.
[[nodiscard]] constexpr bool is_dense_source(copy_plan const& p) noexcept {
    if (!is_dense(p, p.src_offset, p.src_strides, p.unit)) return false;
    std::int64_t step = p.unit;
    for (int done = 0; done < p.rank; ++done) {
        bool found = false;
        for (int i = 0; i < p.rank && !found; ++i) {
            auto const stride = p.src_strides[i] < 0 ? -p.src_strides[i] : p.src_strides[i];
            if (stride != step) continue;
            step *= p.extents[i];
            found = true;
        }
        if (!found) return false;
    }
    return true;
}

/// The part of a plan with indices [begin, begin + count) in loop `level`. Together, all parts copy the same elements
/// as the plan.
[[nodiscard]] constexpr copy_plan part_of(copy_plan p, int level, std::int64_t begin, std::int64_t count) noexcept {
    p.dst_offset += begin * p.dst_strides[level];
    p.src_offset += begin * p.src_strides[level];
    p.total_bytes = p.total_bytes / p.extents[level] * count;
    p.extents[level] = count;
    return p;
}

/// A plan divided into slabs. On one side, each slab covers at most `most` bytes, or one unit if a unit is larger. That
/// side must be dense, and so is each slab. A slab has a single index in each of the loops with the largest strides,
/// and a range of indices in the next loop. A plan that counts bits is one slab, because its parts might not begin at a
/// byte boundary.
class slabs {
   public:
    constexpr slabs(copy_plan const& p, std::int64_t most, bool of_destination) noexcept
        : plan_{p}, of_destination_{of_destination} {
        if (p.rank == 0 || p.counts_bits()) return;
        auto const* const strides = of_destination ? p.dst_strides : p.src_strides;
        auto const size = [&](int i) { return strides[i] < 0 ? -strides[i] : strides[i]; };
        for (int i = 0; i < p.rank; ++i) by_stride_[i] = i;
        std::sort(by_stride_, by_stride_ + p.rank, [&](int i, int j) { return size(i) > size(j); });
        std::int64_t one = p.total_bytes / p.extents[by_stride_[0]];
        for (; one > most && level_ + 1 < p.rank; one /= p.extents[by_stride_[level_]]) {
            outer_ *= p.extents[by_stride_[level_]];
            ++level_;
        }
        auto const indices = p.extents[by_stride_[level_]];
        step_ = std::clamp(most / one, std::int64_t{1}, indices);
        pieces_ = (indices + step_ - 1) / step_;
    }

    [[nodiscard]] constexpr std::int64_t count() const noexcept { return outer_ * pieces_; }
    /// Returns slab i. If the strides are positive, consecutive slabs are adjacent. No slab is larger than the first.
    [[nodiscard]] constexpr copy_plan part(std::int64_t i) const noexcept {
        if (step_ == 0) return plan_;
        auto p = plan_;
        auto const begin = i % pieces_ * step_;
        i /= pieces_;
        for (int k = level_; k-- > 0; i /= plan_.extents[by_stride_[k]])
            p = part_of(p, by_stride_[k], i % plan_.extents[by_stride_[k]], 1);
        return part_of(p, by_stride_[level_], begin, std::min(step_, plan_.extents[by_stride_[level_]] - begin));
    }
    /// Returns the offset of slab i on that side, in bytes.
    [[nodiscard]] constexpr std::int64_t begin(std::int64_t i) const noexcept { return extent(i).begin; }
    [[nodiscard]] constexpr std::size_t size(std::int64_t i) const noexcept {
        return static_cast<std::size_t>(extent(i).size);
    }

   private:
    [[nodiscard]] constexpr extent_of_bytes extent(std::int64_t i) const noexcept {
        copy_plan const p = part(i);
        return of_destination_ ? reach(p, p.dst_offset, p.dst_strides, written(p))
                               : reach(p, p.src_offset, p.src_strides, p.unit);
    }

    copy_plan const& plan_;
    bool of_destination_;
    int by_stride_[copy_plan::max_rank] = {};  // the loops by stride, largest first
    int level_ = 0;                        // position of the divided loop in by_stride_
    std::int64_t outer_ = 1, pieces_ = 1;  // indices of the loops before the divided one; parts of that loop
    std::int64_t step_ = 0;                // indices in a part; 0 for a single slab
};

/// Returns the plan with the lowest byte of its destination, or source, at offset 0.
[[nodiscard]] constexpr copy_plan with_dst_at_0(copy_plan p) noexcept {
    p.dst_offset -= reach(p, p.dst_offset, p.dst_strides, written(p)).begin * (p.counts_bits() ? 8 : 1);
    return p;
}
[[nodiscard]] constexpr copy_plan with_src_at_0(copy_plan p) noexcept {
    p.src_offset -= reach(p, p.src_offset, p.src_strides, p.unit).begin * (p.counts_bits() ? 8 : 1);
    return p;
}

}  // namespace FERRY_NAMESPACE::cuda::detail
