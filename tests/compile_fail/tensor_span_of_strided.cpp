// expect: a span requires contiguous elements: call ferry::as with layout::contiguous, if necessary on a copy \(copy_policy::always, layout::contiguous\)
// span() requires contiguous elements.
#include <ferry/tensor/typed_view.hpp>

#ifdef FERRY_COMPILE_FAIL
constexpr auto how = ferry::layout::strided;
#else
constexpr auto how = ferry::layout::contiguous;
#endif
auto all(ferry::typed_view<float, 2, ferry::access_from::host, how> v) { return v.span(); }
