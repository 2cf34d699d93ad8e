// expect: the view has access_from::device, and the host cannot access its elements: pass data\(\) to a kernel, or call ferry::to_host
// The host does not dereference device memory.
#include <ferry/tensor/typed_view.hpp>

#ifdef FERRY_COMPILE_FAIL
constexpr auto where = ferry::access_from::device;
#else
constexpr auto where = ferry::access_from::host;
#endif
float first(ferry::typed_view<float const, 2, where> v) { return v(0, 0); }
// next case
#include <ferry/tensor/typed_view.hpp>

#ifdef FERRY_COMPILE_FAIL
auto first(ferry::typed_view<float const, 1, ferry::access_from::device> v) { return v[0]; }
#else
auto first(ferry::typed_view<float const, 1, ferry::access_from::host> v) { return v[0]; }
#endif
