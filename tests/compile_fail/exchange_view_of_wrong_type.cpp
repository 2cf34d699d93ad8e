// expect: array_traits<T>::view must take the array by reference and return ferry::tensor_view
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
#ifdef FERRY_COMPILE_FAIL
    static float* view(array& a) { return &a.value; }
#else
    static tensor_view view(array& a) { return {&a.value, {}}; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(std::move(a)); }
// next case
// also: try_view_of
// A view of a copy of the array.
#include <ferry/exchange/producer.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
#ifdef FERRY_COMPILE_FAIL
    static tensor_view view(array a) { return {&a.value, {}}; }
#else
    static tensor_view view(array& a) { return {&a.value, {}}; }
#endif
};

auto described(array& a) { return ferry::view_of(a); }
