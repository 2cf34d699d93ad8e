// expect: array_traits<T>::allocate must be .*ferry::device\), with its parameters in this order
// The request names the device of the new memory.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static array allocate(data_type, shape_view) { return {}; }
#else
    static array allocate(data_type, shape_view, device) { return {}; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
