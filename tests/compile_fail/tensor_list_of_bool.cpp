// expect: an index is an integer, not a bool or a floating-point number
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const, 2> v) {
#ifdef FERRY_COMPILE_FAIL
    return v[{true, false}];
#else
    return v[{1, 0}];
#endif
}
