// expect: the list has more values than N of ferry::dims<N> or ferry::small_view<N>
#include <ferry/tensor/small_view.hpp>

#ifdef FERRY_COMPILE_FAIL
ferry::small_view<2> view(float* data) { return {data, {2, 3, 4}}; }
#else
ferry::small_view<3> view(float* data) { return {data, {2, 3, 4}}; }
#endif
