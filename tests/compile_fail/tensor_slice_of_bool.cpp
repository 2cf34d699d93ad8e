// expect: each argument of slice must be an integer, a ferry::range_slice or ferry::full_extent
// also: try_slice
#include <ferry/tensor/typed_view.hpp>

auto row(ferry::typed_view<float const, 2> v) {
#ifdef FERRY_COMPILE_FAIL
    return v.slice(true, ferry::full_extent);
#else
    return v.slice(1, ferry::full_extent);
#endif
}
