// expect: array_traits<T>::view is called without an object: make it static
// Traits are never instantiated.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
#ifdef FERRY_COMPILE_FAIL
    tensor_view view(array& a) {
        return {&a.value, {}};
    }
#else
    static tensor_view view(array& a) { return {&a.value, {}}; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
