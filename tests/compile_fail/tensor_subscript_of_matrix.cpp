// expect: v\[i\] requires rank 1: call v\(i, j\) with one index for each dimension
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const, 2> v) {
#ifdef FERRY_COMPILE_FAIL
    return v[0];
#else
    return v(0, 0);
#endif
}
