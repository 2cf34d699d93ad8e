// expect: a view with access_from::device does not store its device: export the tensor from which it was made
// also: try_to_dlpack
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/as.hpp>

#ifdef FERRY_COMPILE_FAIL
constexpr auto access = ferry::access_from::device;
#else
constexpr auto access = ferry::access_from::host;
#endif
auto copy(ferry::typed_view<float, 2, access> v) { return ferry::to_dlpack(v, {.copy = ferry::copy_policy::always}); }
