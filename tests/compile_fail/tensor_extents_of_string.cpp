// expect: an extent or stride is an integer of at most 64 bits, not a bool, a character or a floating-point number
// The characters would be extents.
#include <ferry/tensor/inplace_view.hpp>

#ifdef FERRY_COMPILE_FAIL
ferry::inplace_view<4> view(float* data) { return {data, "23"}; }
#else
ferry::inplace_view<4> view(float* data) { return {data, {2, 3}}; }
#endif
