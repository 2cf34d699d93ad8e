// expect: device_begin
// Thrust's iterators walk contiguous elements.
#include <ferry/cuda/thrust.hpp>

#ifdef FERRY_COMPILE_FAIL
constexpr auto how = ferry::layout::strided;
#else
constexpr auto how = ferry::layout::contiguous;
#endif
auto first(ferry::typed_view<float, 1, ferry::access_from::device, how> v) { return ferry::cuda::device_begin(v); }
