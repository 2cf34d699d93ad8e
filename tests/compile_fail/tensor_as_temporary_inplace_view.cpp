// expect: the temporary inplace_view contains the extents
// also: try_as
// A view of dynamic rank references the extents of its argument.
#include <ferry/tensor/as.hpp>
#include <ferry/tensor/inplace_view.hpp>

#include <cstdint>

struct grid {
    float* data;
    std::int64_t rows, columns;
    ferry::inplace_view<2> view() const { return {data, {rows, columns}}; }
};

float corner(grid const& g) {
#ifdef FERRY_COMPILE_FAIL
    auto const v = ferry::as<float>(g.view());
#else
    auto const v = ferry::as<float, 2>(g.view());
#endif
    return v(0, 0);
}
// next case
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
// next case
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
