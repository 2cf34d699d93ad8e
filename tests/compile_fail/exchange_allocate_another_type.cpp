// expect: array_traits<T>::allocate must be .*and return T by value
// A copy has the type of its source.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static array* allocate(data_type, shape_view, device) { return new array{}; }
#else
    static array allocate(data_type, shape_view, device) { return {}; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
