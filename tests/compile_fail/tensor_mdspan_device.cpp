// expect: the host cannot access these elements: pass a family with device_contiguous and device_strided
// also: try_to_mdspan
// An mdspan of device memory needs an accessor that prevents host access.
#include <support/tiny_mdspan.hpp>

#ifdef FERRY_COMPILE_FAIL
constexpr auto where = ferry::access_from::device;
#else
constexpr auto where = ferry::access_from::host;
#endif
auto span(ferry::typed_view<float, 2, where, ferry::layout::contiguous> v) { return ferry::to_mdspan<tiny::family>(v); }
