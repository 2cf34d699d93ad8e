// expect: the view has access_from::device, and the host cannot access its elements: pass data\(\) to a kernel, or call ferry::to_host
// The host does not dereference device memory.
#include <ferry/tensor/typed_view.hpp>

#ifdef FERRY_COMPILE_FAIL
constexpr auto where = ferry::access_from::device;
#else
constexpr auto where = ferry::access_from::host;
#endif
float first(ferry::typed_view<float const, 2, where> v) { return v(0, 0); }
