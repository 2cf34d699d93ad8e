// ferry: a loop over all elements of a typed view.
#pragma once

#include <ferry/tensor/typed_view.hpp>

namespace FERRY_NAMESPACE {
namespace detail {

/// Calls a function for the elements of a view.
template <class View, class F>
struct element_loop {
    View const& view;
    F& call;
    int outer = 0;            // number of dimensions outside the inner loop
    std::int64_t count = 1;   // number of elements of the inner loop
    std::int64_t stride = 1;  // distance between these elements

    /// Merges trailing dimensions into the inner loop while a single stride can traverse them.
    constexpr element_loop(View const& v, F& f) noexcept : view{v}, call{f}, outer{v.rank()} {
        for (; outer > 0; --outer) {
            std::int64_t const extent = v.extent(outer - 1), step = v.stride(outer - 1);
            if (extent == 1) continue;
            if (count != 1 && step != stride * count) break;
            if (count == 1) stride = step;
            count *= extent;
        }
    }
    constexpr void run(int dimension, std::int64_t offset) const {
        if (dimension < outer) {
            std::int64_t const extent = view.extent(dimension), step = view.stride(dimension);
            for (std::int64_t i = 0; i < extent; ++i) run(dimension + 1, offset + i * step);
        } else if constexpr (packed_type<typename View::element_type>) {
            for (std::int64_t i = 0; i < count; ++i) call(view.elements_[offset + i * stride]);
        } else if (auto* const first = view.data() + offset; stride == 1) {  // compilers vectorise this loop
            for (std::int64_t i = 0; i < count; ++i) call(first[i]);
        } else {
            for (std::int64_t i = 0; i < count; ++i) call(first[i * stride]);
        }
    }
};

}  // namespace detail

/// Calls a function for each element, in row-major order. Trailing dimensions that a single stride can traverse are
/// merged into one loop.
///
/// \param v  typed view of host memory, of any rank
/// \param f  function that takes an element as `T&`, or by value for packed types
template <element T, int Rank, layout Layout, class F>
constexpr void for_each(typed_view<T, Rank, access_from::host, Layout> const& v, F&& f) {
    std::int64_t const size = v.size();
    if constexpr (Layout == layout::contiguous && !packed_type<T>)
        for (std::int64_t i = 0; i < size; ++i) f(v.data()[i]);
    else if (size != 0) detail::element_loop{v, f}.run(0, 0);
}

}  // namespace FERRY_NAMESPACE
