// ferry: nested loops over two strided layouts at once, in canonical form.
#pragma once

#include <ferry/base/checked.hpp>

#include <cstdint>
#include <type_traits>

namespace ferry::inline v0 {

/// What is left of two layouts of one shape once nothing in it is arbitrary: dimensions of extent 1
/// are gone, destination strides are positive and descend, and neighbours that both layouts step
/// through evenly are one dimension.
///
/// Extents count units, offsets and strides are distances: bytes, or bits where the owner says so.
/// A trivially copyable value that never allocates: the capacity is a proof and no limit, since 63
/// extents of 2 or more multiply to more elements than 63 bits can count (R32). Entries from `rank`
/// on are unset.
struct loop_nest {
    static constexpr int max_rank = 62;

    int rank = 0;
    std::int64_t dst_offset = 0;  ///< from the destination's first element to where the loops start
    std::int64_t src_offset = 0;
    std::int64_t extents[max_rank];  ///< slowest destination dimension first; all ≥ 2
    std::int64_t dst_strides[max_rank];
    std::int64_t src_strides[max_rank];  ///< any sign; 0 repeats the source (R28, R29)

    /// No loops: one unit. Leaves the lists unset, for clearing them would cost more than most
    /// plans.
    constexpr loop_nest() noexcept {
        if (std::is_constant_evaluated())
            for (int i = 0; i < max_rank; ++i) extents[i] = dst_strides[i] = src_strides[i] = 0;
    }

    /// Adds a dimension of extent ≥ 1, turned round when the destination runs backwards.
    constexpr void add(std::int64_t extent, std::int64_t dst_stride, std::int64_t src_stride) noexcept {
        if (extent == 1) return;  // R27
        if (dst_stride < 0) {
            dst_offset += (extent - 1) * dst_stride;
            src_offset += (extent - 1) * src_stride;
            dst_stride = -dst_stride;
            src_stride = -src_stride;
        }
        set(rank++, {extent, dst_stride, src_stride});
    }

    /// Orders by destination stride, largest first. Insertion: lists are short and mostly in order.
    constexpr void sort() noexcept {
        for (int i = 1; i < rank; ++i) {
            dimension const moving = get(i);
            int k = i;
            for (; k > 0 && dst_strides[k - 1] < moving.dst_stride; --k) set(k, get(k - 1));
            set(k, moving);
        }
    }

    /// Joins each dimension with the next one where both layouts allow it.
    constexpr void coalesce() noexcept {
        int kept = 0;
        for (int i = 1; i < rank; ++i) {
            if (continues(dst_strides[kept], extents[i], dst_strides[i]) &&
                continues(src_strides[kept], extents[i], src_strides[i])) {
                set(kept, {extents[kept] * extents[i], dst_strides[i], src_strides[i]});
            } else {
                set(++kept, get(i));
            }
        }
        if (rank > 0) rank = kept + 1;
    }

    /// Takes the innermost dimension out when units of size `unit` touch each other in both
    /// layouts. Gives the size of the larger unit that replaces them.
    [[nodiscard]] constexpr std::int64_t absorb_run(std::int64_t unit) noexcept {
        if (rank == 0 || dst_strides[rank - 1] != unit || src_strides[rank - 1] != unit) return unit;
        return unit * extents[--rank];
    }

    /// The dimension in which the source advances in the smallest steps, not counting repetition;
    /// −1 without one.
    [[nodiscard]] constexpr int fastest_source() const noexcept {
        int best = -1;
        for (int i = rank; i-- > 0;) {
            if (src_strides[i] == 0) continue;
            if (best < 0 || magnitude(src_strides[i]) < magnitude(src_strides[best])) best = i;
        }
        return best;
    }

    /// Moves dimension `from` to position `to` ≥ `from`; those between move up.
    constexpr void move_inwards(int from, int to) noexcept {
        dimension const moving = get(from);
        for (; from < to; ++from) set(from, get(from + 1));
        set(to, moving);
    }

    /// Compares what is set.
    friend constexpr bool operator==(loop_nest const& a, loop_nest const& b) noexcept {
        bool same = a.rank == b.rank && a.dst_offset == b.dst_offset && a.src_offset == b.src_offset;
        for (int i = 0; same && i < a.rank; ++i)
            same = a.extents[i] == b.extents[i] && a.dst_strides[i] == b.dst_strides[i] &&
                   a.src_strides[i] == b.src_strides[i];
        return same;
    }

   private:
    struct dimension {
        std::int64_t extent, dst_stride, src_stride;
    };
    [[nodiscard]] constexpr dimension get(int i) const noexcept { return {extents[i], dst_strides[i], src_strides[i]}; }
    constexpr void set(int i, dimension d) noexcept {
        extents[i] = d.extent;
        dst_strides[i] = d.dst_stride;
        src_strides[i] = d.src_stride;
    }
    [[nodiscard]] static constexpr bool continues(std::int64_t outer, std::int64_t extent,
                                                  std::int64_t inner) noexcept {
        std::int64_t end = 0;
        return detail::checked_multiply(extent, inner, end) && outer == end;
    }
    [[nodiscard]] static constexpr std::int64_t magnitude(std::int64_t n) noexcept { return n < 0 ? -n : n; }
};

}  // namespace ferry::inline v0
