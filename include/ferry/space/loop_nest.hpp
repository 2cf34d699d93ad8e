// ferry: nested loops over two strided layouts, in canonical form.
#pragma once

#include <ferry/base/detail/checked.hpp>

#include <cstdint>
#include <type_traits>

namespace FERRY_NAMESPACE {

/// Canonical form of two layouts of the same shape.
///
/// There are no dimensions of extent 1, destination strides are positive and descending, and adjacent dimensions that
/// are contiguous in both layouts are merged. Only a plan of kind transpose has another order. Extents are in units;
/// offsets and strides are distances in bytes, or in bits for a plan of kind bits. Trivially copyable. Never allocates,
/// because `max_rank` suffices for every shape: the number of elements fits in 63 bits (R32) and every extent is at
/// least 2. Entries at `rank` and above are uninitialised.
struct loop_nest {
    /// Maximum number of dimensions.
    static constexpr int max_rank = 62;

    int rank = 0;
    std::int64_t dst_offset = 0;  ///< from the destination's first element to the first unit of the loops
    std::int64_t src_offset = 0;  ///< from the source's first element to the first unit of the loops
    std::int64_t extents[max_rank];  ///< slowest destination dimension first; all ≥ 2
    std::int64_t dst_strides[max_rank];
    std::int64_t src_strides[max_rank];  ///< any sign; 0 repeats the source (R28, R29)

    /// Constructs a nest without loops: one unit. Leaves the arrays uninitialised at run time, because their
    /// initialisation takes longer than the construction of most plans.
    constexpr loop_nest() noexcept {
        if (std::is_constant_evaluated())
            for (int i = 0; i < max_rank; ++i) extents[i] = dst_strides[i] = src_strides[i] = 0;
    }

    /// Adds an innermost dimension, and reverses it when the destination stride is negative.
    ///
    /// \param extent      extent, at least 1; an extent of 1 adds nothing (R27)
    /// \param dst_stride  distance between adjacent units in the destination
    /// \param src_stride  distance between adjacent units in the source
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

    /// Sorts the dimensions by destination stride, largest first. Uses insertion sort, because the arrays are short and
    /// almost sorted.
    constexpr void sort() noexcept {
        for (int i = 1; i < rank; ++i) {
            dimension const moving = get(i);
            int k = i;
            for (; k > 0 && dst_strides[k - 1] < moving.dst_stride; --k) set(k, get(k - 1));
            set(k, moving);
        }
    }

    /// Merges adjacent dimensions that are contiguous in both layouts.
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

    /// Removes the innermost dimension when its units are adjacent in both layouts.
    ///
    /// \param unit  size of a unit
    /// \return      size of the merged unit; `unit` when no dimension was removed
    [[nodiscard]] constexpr std::int64_t absorb_run(std::int64_t unit) noexcept {
        if (rank == 0 || dst_strides[rank - 1] != unit || src_strides[rank - 1] != unit) return unit;
        return unit * extents[--rank];
    }

    /// Finds the dimension whose source stride has the smallest nonzero magnitude.
    ///
    /// \return  index of the dimension; −1 if there is none
    [[nodiscard]] constexpr int fastest_source() const noexcept {
        int best = -1;
        for (int i = rank; i-- > 0;) {
            if (src_strides[i] == 0) continue;
            if (best < 0 || magnitude(src_strides[i]) < magnitude(src_strides[best])) best = i;
        }
        return best;
    }

    /// Moves a dimension inwards; the dimensions in between move outwards by one.
    ///
    /// \param from  position of the dimension
    /// \param to    new position, at least `from`
    constexpr void move_inwards(int from, int to) noexcept {
        dimension const moving = get(from);
        for (; from < to; ++from) set(from, get(from + 1));
        set(to, moving);
    }

    /// Returns whether ranks, offsets, and the first `rank` extents and strides are equal.
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

}  // namespace FERRY_NAMESPACE
