// expect: a view with access_from::device does not store its device: borrow the tensor from which it was made
// also: try_borrow
#include <ferry/exchange/borrow.hpp>
#include <ferry/tensor/as.hpp>

#ifdef FERRY_COMPILE_FAIL
constexpr auto access = ferry::access_from::device;
#else
constexpr auto access = ferry::access_from::host;
#endif
void use(ferry::typed_view<float, 2, access> v) { static_cast<void>(ferry::borrow(v)); }
