// expect: array_traits<T>::adopt must be public, static T adopt\(ferry::managed_tensor\) or static T adopt\(ferry::managed_tensor, ferry::stream_token\).* return T by value
// from_dlpack<T> returns a T.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static array* adopt(managed_tensor m) { return new array{*m.as<float, 0>().data()}; }
#else
    static array adopt(managed_tensor m) { return {*m.as<float, 0>().data()}; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
