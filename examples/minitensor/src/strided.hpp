// Iterates over strided elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mt::detail {

/// Calls f(a, b, n) for rows of n elements along the last dimension, in row-major order; a and b
/// are the offsets of the row's first element with the first and the second strides.
template <class F>
void for_each_row(std::vector<std::int64_t> const& shape,
                  std::vector<std::int64_t> const& a_strides,
                  std::vector<std::int64_t> const& b_strides, F&& f) {
    for (auto const extent : shape) {
        if (extent == 0) return;
    }
    if (shape.empty()) {
        f(std::int64_t{0}, std::int64_t{0}, std::int64_t{1});
        return;
    }
    auto const outer = shape.size() - 1;
    std::vector<std::int64_t> at(outer, 0);
    std::int64_t a = 0;
    std::int64_t b = 0;
    for (;;) {
        f(a, b, shape[outer]);
        auto d = outer;
        for (;; --d) {
            if (d == 0) return;
            auto const i = d - 1;
            if (++at[i] < shape[i]) {
                a += a_strides[i];
                b += b_strides[i];
                break;
            }
            at[i] = 0;
            a -= a_strides[i] * (shape[i] - 1);
            b -= b_strides[i] * (shape[i] - 1);
        }
    }
}

}  // namespace mt::detail
