// ferry: what strided copies need beside the plan: density, and slabs.
#pragma once

#include <ferry/cuda/transfer.hpp>
#include <ferry/space/copy_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ferry::inline v0::cuda::detail {

/// The bits or bytes that one unit of a plan writes; of the source it reads `unit`.
[[nodiscard]] constexpr std::int64_t written(copy_plan const& p) noexcept { return p.unit + p.zero_bits; }

/// Whether a side of a plan covers every byte between its first and its last, each once.
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
    // Elements never overlap in a destination; in a source they might, and then a sum fits by chance.
    return covered == high - low;
}

/// The same for a source, which may repeat bytes: its strides, by size, must continue each other.
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

/// The part of a plan whose index in loop `level` is in [begin, begin + count). Copies of parts together are the whole.
[[nodiscard]] constexpr copy_plan part_of(copy_plan p, int level, std::int64_t begin, std::int64_t count) noexcept {
    p.dst_offset += begin * p.dst_strides[level];
    p.src_offset += begin * p.src_strides[level];
    p.total_bytes = p.total_bytes / p.extents[level] * count;
    p.extents[level] = count;
    return p;
}

/// A plan cut into slabs of at most `most` bytes of one side, which is dense and stays so: the loops with the largest
/// steps there are at one index each, and the next one is cut. A slab is one unit at least. Plans that count bits are
/// one slab: their parts need not begin at a byte.
class slabs {
   public:
    constexpr slabs(copy_plan const& p, std::int64_t most, bool of_destination) noexcept
        : plan_{p}, of_destination_{of_destination} {
        if (p.rank == 0 || p.counts_bits()) return;
        auto const* const strides = of_destination ? p.dst_strides : p.src_strides;
        auto const size = [&](int i) { return strides[i] < 0 ? -strides[i] : strides[i]; };
        for (int i = 0; i < p.rank; ++i) order_[i] = i;
        std::sort(order_, order_ + p.rank, [&](int i, int j) { return size(i) > size(j); });
        std::int64_t one = p.total_bytes / p.extents[order_[0]];
        for (; one > most && level_ + 1 < p.rank; one /= p.extents[order_[level_]]) {
            outer_ *= p.extents[order_[level_]];
            ++level_;
        }
        auto const indices = p.extents[order_[level_]];
        step_ = std::clamp(most / one, std::int64_t{1}, indices);
        pieces_ = (indices + step_ - 1) / step_;
    }

    [[nodiscard]] constexpr std::int64_t count() const noexcept { return outer_ * pieces_; }
    /// Slab i: they lie one behind the other where the strides are positive, and the first one is as large as any.
    [[nodiscard]] constexpr copy_plan part(std::int64_t i) const noexcept {
        if (step_ == 0) return plan_;
        auto p = plan_;
        auto const begin = i % pieces_ * step_;
        i /= pieces_;
        for (int k = level_; k-- > 0; i /= plan_.extents[order_[k]])
            p = part_of(p, order_[k], i % plan_.extents[order_[k]], 1);
        return part_of(p, order_[level_], begin, std::min(step_, plan_.extents[order_[level_]] - begin));
    }
    /// Where slab i lies on that side, in bytes.
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
    int order_[copy_plan::max_rank] = {};  // the loops, those with the largest steps first
    int level_ = 0;                        // the place in it of the loop that is cut
    std::int64_t outer_ = 1, pieces_ = 1;  // indices of the loops before it; parts of it
    std::int64_t step_ = 0;                // indices of it in a part; 0: the plan is whole
};

/// The plan with the destination, or the source, moved so that its lowest byte is at offset 0.
[[nodiscard]] constexpr copy_plan with_dst_at_0(copy_plan p) noexcept {
    p.dst_offset -= reach(p, p.dst_offset, p.dst_strides, written(p)).begin * (p.counts_bits() ? 8 : 1);
    return p;
}
[[nodiscard]] constexpr copy_plan with_src_at_0(copy_plan p) noexcept {
    p.src_offset -= reach(p, p.src_offset, p.src_strides, p.unit).begin * (p.counts_bits() ? 8 : 1);
    return p;
}

}  // namespace ferry::inline v0::cuda::detail
