// expect: (use of deleted function|overload resolution selected deleted operator|call to deleted function call operator)
// expect: an index is an integer, not a bool or a floating-point number
// Indices are integers.
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const, 2> v) {
#ifdef FERRY_COMPILE_FAIL
    return v(0.9, true);
#else
    return v(0, 1);
#endif
}
