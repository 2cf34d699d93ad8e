// expect: a range-based for loop requires rank 1: call ferry::for_each, or select one dimension with slice
#include <ferry/tensor/slice.hpp>
#include <ferry/tensor/typed_view.hpp>

float sum(ferry::typed_view<float const, 2> v) {
    float total = 0;
#ifdef FERRY_COMPILE_FAIL
    for (float const x : v) total += x;
#else
    for (float const x : v.slice(0, ferry::full_extent)) total += x;
#endif
    return total;
}
