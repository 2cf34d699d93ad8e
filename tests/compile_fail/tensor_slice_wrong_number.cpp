// expect: slice requires one index or range_slice for each dimension
// also: try_slice
#include <ferry/tensor/typed_view.hpp>

auto row(ferry::typed_view<float const, 2> v) {
#ifdef FERRY_COMPILE_FAIL
    return v.slice(1);
#else
    return v.slice(1, ferry::full_extent);
#endif
}
