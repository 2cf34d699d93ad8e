// expect: an index is an integer, not a bool or a floating-point number
// also: try_at
// The rank is checked at run time.
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const> v) {
#ifdef FERRY_COMPILE_FAIL
    return v.at(0.9, true);
#else
    return v.at(0, 1);
#endif
}
