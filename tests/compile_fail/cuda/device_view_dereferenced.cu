// expect: refused_arguments.*deleted function
// nvcc refuses host code that indexes a device view as well.
#include <ferry/tensor/typed_view.hpp>

#ifdef FERRY_COMPILE_FAIL
constexpr auto where = ferry::access_from::device;
#else
constexpr auto where = ferry::access_from::host;
#endif
float first(ferry::typed_view<float const, 2, where> v) { return v(0, 0); }
