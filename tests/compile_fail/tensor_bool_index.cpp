// expect: (use of deleted function|overload resolution selected deleted operator)
// expect: an index is an integer, not a bool or a floating-point number
// A bool is not an index.
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const, 1> v) {
#ifdef FERRY_COMPILE_FAIL
    return v[true];
#else
    return v[1];
#endif
}
