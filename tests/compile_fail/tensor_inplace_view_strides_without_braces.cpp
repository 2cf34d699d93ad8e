// expect: put the strides in braces: \{data, \{extent\}, \{stride\}\}
// The number could be a stride or a second extent.
#include <ferry/tensor/inplace_view.hpp>

#ifdef FERRY_COMPILE_FAIL
ferry::inplace_view<1> view(float* data) { return {data, {3}, 4}; }
#else
ferry::inplace_view<1> view(float* data) { return {data, {3}, {4}}; }
#endif
