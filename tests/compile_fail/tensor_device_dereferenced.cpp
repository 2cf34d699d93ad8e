// expect: (no match for call|no matching function for call to object of type)
// expect: Access == access_from::host
// The host does not dereference device memory.
#include <ferry/tensor/typed_view.hpp>

#ifdef FERRY_COMPILE_FAIL
constexpr auto where = ferry::access_from::device;
#else
constexpr auto where = ferry::access_from::host;
#endif
float first(ferry::typed_view<float const, 2, where> v) { return v(0, 0); }
