// expect: (no match for call|no matching function for call to object of type)
// expect: sizeof...\(Index\) == Rank
// The number of indices must be the number of dimensions.
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const, 3> v) {
#ifdef FERRY_COMPILE_FAIL
    return v(0, 0);
#else
    return v(0, 0, 0);
#endif
}
