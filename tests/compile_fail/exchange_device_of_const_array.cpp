// expect: array_traits<T>::view must .*view\(T const&\)
// also: try_device_of
// A const array whose adapter supports only mutable ones.
#include <ferry/exchange/producer.hpp>

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

auto place(array const& a) { return ferry::device_of(a); }
