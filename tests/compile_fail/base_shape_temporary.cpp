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
