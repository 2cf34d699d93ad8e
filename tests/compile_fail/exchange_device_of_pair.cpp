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
// next case
// also: try_device_of
// R37: device_of does not ignore a `device` with another return type.
#include <ferry/exchange/producer.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static int device(array const&) { return 1; }
#else
    static ferry::device device(array const&) { return ferry::cpu; }
#endif
};

auto place(array& a) { return ferry::device_of(a); }
