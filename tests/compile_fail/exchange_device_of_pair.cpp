// expect: array_traits<T>::device must be .*return a ferry::device, not a pair of integers
// R37: the device of an array is a ferry::device.
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static std::pair<int, int> device(array const&) { return {1, 0}; }
#else
    static ferry::device device(array const&) { return ferry::cpu; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
