// expect: the temporary inplace_view contains the extents
#include <ferry/tensor/inplace_view.hpp>

#include <cstdint>

struct grid {
    float* data;
    std::int64_t rows, columns;
    ferry::inplace_view<2> view() const { return {data, {rows, columns}}; }
};

std::int64_t rows(grid const& g) {
    ferry::tensor_view v;
#ifdef FERRY_COMPILE_FAIL
    v = g.view();
#else
    auto const kept = g.view();
    v = ferry::tensor_view{kept};
#endif
    return v.extent(0);
}
