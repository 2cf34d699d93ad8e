// expect: (no match for call|no matching function for call to object of type)
// expect: sizeof...\(Index\) == Rank
// As many indices as dimensions.
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const, 3> v) {
#ifdef FERRY_COMPILE_FAIL
    return v(0, 0);
#else
    return v(0, 0, 0);
#endif
}
