// expect: the adapter only views mutable arrays: add view\(T const&\)
// Constness means READ_ONLY, which the view of a mutable array does not have.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifndef FERRY_COMPILE_FAIL
    static tensor_view view(array const& a) { return {&a.value, {}}; }
#endif
};

auto exported(array const& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
