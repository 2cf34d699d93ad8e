// expect: the temporary inplace_view contains the extents
#include <ferry/tensor/inplace_view.hpp>

#include <cstdint>

struct grid {
    float* data;
    std::int64_t rows, columns;
    ferry::inplace_view<2> view() const { return {data, {rows, columns}}; }
};

std::int64_t rows(grid const& g) {
#ifdef FERRY_COMPILE_FAIL
    auto const extents = g.view().shape();
#else
    auto const v = g.view();
    auto const extents = v.shape();
#endif
    return extents[0];
}
