// expect: the view refers to a list of extents, and this list is temporary: use ferry::inplace_view<N>, which stores the list
// A shape borrows (R7).
#include <ferry/base/shape.hpp>

#include <array>

std::array<std::int64_t, 2> extents();
auto rank() {
#ifdef FERRY_COMPILE_FAIL
    ferry::shape_view const shape = extents();
#else
    auto const list = extents();
    ferry::shape_view const shape = list;
#endif
    return shape.rank();
}
// next case
// An array with separate rows and columns (R7).
#include <ferry/ferry.hpp>

struct grid {
    float* data;
    std::int64_t rows, columns;
};

template <>
struct ferry::array_traits<grid> {
#ifdef FERRY_COMPILE_FAIL
    static tensor_view view(grid& g) { return {g.data, {g.rows, g.columns}}; }
#else
    static inplace_view<2> view(grid& g) { return {g.data, {g.rows, g.columns}}; }
#endif
};

auto shared(grid& g) {
    ferry::borrowed_tensor const b = ferry::borrow(g);
    return b.view().rank();
}
// next case
// {0, 3} would be a null pointer and a rank.
#include <ferry/tensor/view.hpp>

ferry::tensor_view view(float* data, std::int64_t const (&extents)[2]) {
#ifdef FERRY_COMPILE_FAIL
    return {data, {0, 3}};
#else
    return {data, extents};
#endif
}
