// expect: unknown array type: specialise ferry::array_traits<T>
// also: try_device_of
// A type without an adapter.
#include <ferry/exchange/producer.hpp>

struct array {
    float value = 1;
#ifndef FERRY_COMPILE_FAIL
    ferry::tensor_view ferry_view() { return {&value, {}}; }
#endif
};

auto described(array& a) { return ferry::device_of(a); }
