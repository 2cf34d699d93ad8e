// expect: an extent or stride is an integer of at most 64 bits, not a bool, a character or a floating-point number
#include <ferry/tensor/inplace_view.hpp>

#ifdef FERRY_COMPILE_FAIL
ferry::inplace_view<2> view(float* data) { return {data, {3, true}}; }
#else
ferry::inplace_view<2> view(float* data) { return {data, {3, 1}}; }
#endif
// next case
// The characters would be extents.
#include <ferry/tensor/inplace_view.hpp>

#ifdef FERRY_COMPILE_FAIL
ferry::inplace_view<4> view(float* data) { return {data, "23"}; }
#else
ferry::inplace_view<4> view(float* data) { return {data, {2, 3}}; }
#endif
