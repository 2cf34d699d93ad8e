// ferry: the outer loops of a copy.
#pragma once

#include <ferry/config.hpp>
#include <ferry/space/loop_nest.hpp>

#include <cstddef>

namespace FERRY_NAMESPACE::detail {

/// Calls `body(dst, src)` once for every index of all but the last `inner` dimensions, with the distances from the
/// first elements.
template <class Body>
void for_each_outer(loop_nest const& nest, int inner, Body const& body) noexcept {
    std::int64_t index[loop_nest::max_rank];
    int const last = nest.rank - inner - 1;
    for (int i = 0; i <= last; ++i) index[i] = 0;
    std::int64_t dst = nest.dst_offset, src = nest.src_offset;
    for (;;) {
        body(dst, src);
        int i = last;
        for (; i >= 0; --i) {
            dst += nest.dst_strides[i];
            src += nest.src_strides[i];
            if (++index[i] < nest.extents[i]) break;
            dst -= nest.extents[i] * nest.dst_strides[i];
            src -= nest.extents[i] * nest.src_strides[i];
            index[i] = 0;
        }
        if (i < 0) return;
    }
}

/// The last two dimensions of a nest: `rows` × `columns` units. Missing dimensions have extent 1.
struct plane {
    std::int64_t rows = 1, columns = 1;
    std::int64_t dst_row = 0, dst_column = 0;  ///< strides
    std::int64_t src_row = 0, src_column = 0;

    explicit plane(loop_nest const& nest) noexcept {
        if (int const c = nest.rank - 1; c >= 0) {
            columns = nest.extents[c];
            dst_column = nest.dst_strides[c];
            src_column = nest.src_strides[c];
        }
        if (int const r = nest.rank - 2; r >= 0) {
            rows = nest.extents[r];
            dst_row = nest.dst_strides[r];
            src_row = nest.src_strides[r];
        }
    }

    /// Returns the number of dimensions of a nest that its plane covers.
    [[nodiscard]] static int dimensions(loop_nest const& nest) noexcept { return nest.rank < 2 ? nest.rank : 2; }
};

/// Copies the units of a plane, which have `unit` bytes. Called by pointer, so that the loops around it exist once for
/// all units.
using plane_function = void(plane const& p, std::size_t unit, std::byte* dst, std::byte const* src) noexcept;

/// Calls `copy` for `inner` at every index of all but the last `dimensions` dimensions of a nest.
FERRY_NOINLINE inline void for_each_plane(loop_nest const& nest, plane const& inner, int dimensions, std::size_t unit,
                                          std::byte* dst, std::byte const* src, plane_function* copy) noexcept {
    for_each_outer(nest, dimensions,
                   [&](std::int64_t d, std::int64_t s) noexcept { copy(inner, unit, dst + d, src + s); });
}

}  // namespace FERRY_NAMESPACE::detail
