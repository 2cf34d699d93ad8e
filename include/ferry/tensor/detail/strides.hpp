// ferry: the strides of a view: implicit ones, and those that repeat elements.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/config.hpp>

#include <cstdint>

namespace FERRY_NAMESPACE::detail {

/// Returns the stride of a dimension; computes it if the strides are implicit.
[[nodiscard]] constexpr std::int64_t stride_of(shape_view shape, strides_view strides, int dimension) noexcept {
    if (!strides.is_implicit()) return strides[dimension];
    std::int64_t step = 1;
    for (int k = shape.rank(); --k > dimension;) step = compact_step(step, shape[k]);
    return step;
}

/// Returns whether there is one stride for each extent, or none.
[[nodiscard]] constexpr bool has_strides(shape_view shape, strides_view strides) noexcept {
    return strides.is_implicit() || strides.rank() == shape.rank();
}

/// Returns the first dimension that repeats elements, because its stride is 0 (R29); -1 if there is none, if there are
/// no elements, or for another number of strides, which `validate` reports.
[[nodiscard]] constexpr int repeated_dimension(shape_view shape, strides_view strides) noexcept {
    if (strides.rank() != shape.rank()) return -1;
    int first = -1;
    for (int i = shape.rank(); i-- > 0;) {
        if (shape[i] == 0) return -1;
        if (shape[i] > 1 && strides[i] == 0) first = i;
    }
    return first;
}

/// Reports that writable elements repeat in dimension `i`; see `repeated_dimension`. `fix` ends the message.
FERRY_COLD inline bool report_repetition(int i, char const* fix, reporter r) {
    return report(r, errc::strides,
                  message{"dimension "} << i << " has stride 0, and its elements must not be written (R29): " << fix);
}

}  // namespace FERRY_NAMESPACE::detail
