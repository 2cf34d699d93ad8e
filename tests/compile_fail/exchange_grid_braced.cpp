// expect: the view refers to a list of extents, and this list is temporary: use ferry::inplace_view<N>, which stores the list
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
