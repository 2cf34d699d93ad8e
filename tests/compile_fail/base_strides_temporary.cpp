// expect: the view refers to a list of strides, and this list is temporary: use ferry::inplace_view<N>, which stores the list
// Strides borrow (R7).
#include <ferry/base/shape.hpp>

#include <array>

std::array<std::int64_t, 2> list();
auto rank() {
#ifdef FERRY_COMPILE_FAIL
    ferry::strides_view const strides{list()};
#else
    auto const kept = list();
    ferry::strides_view const strides{kept};
#endif
    return strides.rank();
}
