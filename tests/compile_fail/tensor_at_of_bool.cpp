// expect: an index is an integer, not a bool or a floating-point number
// also: try_at
// The rank is checked at run time.
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const> v) {
#ifdef FERRY_COMPILE_FAIL
    return v.at(0.9, true);
#else
    return v.at(0, 1);
#endif
}
// next case
#include <ferry/tensor/typed_view.hpp>

float first(ferry::typed_view<float const, 2> v) {
#ifdef FERRY_COMPILE_FAIL
    return v[{true, false}];
#else
    return v[{1, 0}];
#endif
}
// next case
// also: try_at
#include <ferry/tensor/typed_view.hpp>

auto element(ferry::typed_view<float const, 2> v, [[maybe_unused]] double x, std::size_t i) {
#ifdef FERRY_COMPILE_FAIL
    return v.at({i, x});
#else
    return v.at({i, 0});
#endif
}
