// expect: array_traits<T>::view takes the array by value, and the view would outlive that copy: take it by reference
// The extents are destroyed with the copy.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
#ifdef FERRY_COMPILE_FAIL
    static tensor_view view(array a) {
        return {&a.value, {}};
    }
#else
    static tensor_view view(array& a) { return {&a.value, {}}; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
