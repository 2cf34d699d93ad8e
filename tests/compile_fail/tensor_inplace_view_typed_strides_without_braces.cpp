// expect: put the strides in braces: \{data, type, \{extent\}, \{stride\}\}
#include <ferry/tensor/inplace_view.hpp>

#ifdef FERRY_COMPILE_FAIL
ferry::inplace_view<1> view(void* data) { return {data, ferry::dtype_of<float>, {3}, 4, ferry::cpu}; }
#else
ferry::inplace_view<1> view(void* data) { return {data, ferry::dtype_of<float>, {3}, {4}, ferry::cpu}; }
#endif
