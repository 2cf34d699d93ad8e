// expect: the number of indices is not the rank: pass one index for each dimension
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const, 3> v) {
#ifdef FERRY_COMPILE_FAIL
    return v(0, 0);
#else
    return v(0, 0, 0);
#endif
}
// next case
// also: try_at
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const, 1> v) {
#ifdef FERRY_COMPILE_FAIL
    return v.at(0, 0);
#else
    return v.at(0);
#endif
}
