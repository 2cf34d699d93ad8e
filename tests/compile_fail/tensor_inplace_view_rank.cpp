// expect: the list has more values than N of ferry::inplace_dims<N> or ferry::inplace_view<N>
#include <ferry/tensor/inplace_view.hpp>

#ifdef FERRY_COMPILE_FAIL
ferry::inplace_view<2> view(float* data) { return {data, {2, 3, 4}}; }
#else
ferry::inplace_view<3> view(float* data) { return {data, {2, 3, 4}}; }
#endif
