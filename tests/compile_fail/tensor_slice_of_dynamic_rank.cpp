// expect: slice requires a static rank: call as<T, Rank>
// also: try_slice
#include <ferry/tensor/typed_view.hpp>

#ifdef FERRY_COMPILE_FAIL
auto row(ferry::typed_view<float const> v) { return v.slice(0, ferry::full_extent); }
#else
auto row(ferry::typed_view<float const, 2> v) { return v.slice(0, ferry::full_extent); }
#endif
