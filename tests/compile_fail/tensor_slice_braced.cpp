// expect: pass a range of indices as ferry::range_slice\{first, last\}
// also: try_slice
#include <ferry/tensor/slice.hpp>
#include <ferry/tensor/typed_view.hpp>

#ifdef FERRY_COMPILE_FAIL
auto rows(ferry::typed_view<float const, 2> v) { return v.slice({1, 5}, ferry::full_extent); }
#else
auto rows(ferry::typed_view<float const, 2> v) { return v.slice(ferry::range_slice{1, 5}, ferry::full_extent); }
#endif
