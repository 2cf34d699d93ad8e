// ferry: what strided copies need beside the plan: density, and slabs.
#pragma once

#include <ferry/cuda/transfer.hpp>
#include <ferry/space/copy_plan.hpp>

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

/// The loop whose steps are the largest in the destination, or in the source: cutting a dense side there leaves it
/// dense.
[[nodiscard]] constexpr int slowest(copy_plan const& p, std::int64_t const* strides) noexcept {
    int best = 0;
    auto const size = [&](int i) { return strides[i] < 0 ? -strides[i] : strides[i]; };
    for (int i = 1; i < p.rank; ++i)
        if (size(i) > size(best)) best = i;
    return best;
}

/// The part of a plan whose index in loop `level` is in [begin, begin + count). Copies of parts together are the whole.
[[nodiscard]] constexpr copy_plan part_of(copy_plan p, int level, std::int64_t begin, std::int64_t count) noexcept {
    p.dst_offset += begin * p.dst_strides[level];
    p.src_offset += begin * p.src_strides[level];
    p.total_bytes = p.total_bytes / p.extents[level] * count;
    p.extents[level] = count;
    return p;
}

/// How many indices of loop `level` make a slab of at most `most` bytes; all of them when the plan counts bits, whose
/// parts need not begin at a byte.
[[nodiscard]] constexpr std::int64_t slab_of(copy_plan const& p, int level, std::int64_t most) noexcept {
    if (p.counts_bits() || p.rank == 0 || p.total_bytes <= most) return p.rank == 0 ? 1 : p.extents[level];
    std::int64_t const one = p.total_bytes / p.extents[level];
    return one >= most ? 1 : most / one;
}

/// A plan cut along loop `level` into slabs of at most `most` bytes of one side, which is dense and stays so.
struct slabs {
    copy_plan const& plan;
    int level;
    std::int64_t step, count;
    bool of_destination;

    slabs(copy_plan const& p, int along, std::int64_t most, bool destination) noexcept
        : plan{p},
          level{along},
          step{slab_of(p, along, most)},
          count{(p.extents[along] + step - 1) / step},
          of_destination{destination} {}

    [[nodiscard]] copy_plan part(std::int64_t i) const noexcept {
        std::int64_t const begin = i * step, left = plan.extents[level] - begin;
        return part_of(plan, level, begin, left < step ? left : step);
    }
    /// Where slab i lies on that side, in bytes.
    [[nodiscard]] std::int64_t begin(std::int64_t i) const noexcept { return extent(i).begin; }
    [[nodiscard]] std::size_t size(std::int64_t i) const noexcept { return static_cast<std::size_t>(extent(i).size); }
    [[nodiscard]] extent_of_bytes extent(std::int64_t i) const noexcept {
        copy_plan const p = part(i);
        return of_destination ? reach(p, p.dst_offset, p.dst_strides, written(p))
                              : reach(p, p.src_offset, p.src_strides, p.unit);
    }
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
