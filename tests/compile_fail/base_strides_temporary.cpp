// expect: the view refers to a list of strides, and this one is temporary: store it where it outlives the view, such as in the array, not in a local variable of the function view\(\)
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
