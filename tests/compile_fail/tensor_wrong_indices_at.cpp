// expect: the number of indices is not the rank: pass one index for each dimension
// also: try_at
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const, 1> v) {
#ifdef FERRY_COMPILE_FAIL
    return v.at(0, 0);
#else
    return v.at(0);
#endif
}
