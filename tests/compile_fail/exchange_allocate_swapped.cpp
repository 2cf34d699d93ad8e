// expect: array_traits<T>::allocate must be public, static T allocate\(ferry::data_type, ferry::shape_view, ferry::device\), with its arguments in this order
// With other arguments, copies would be made on another device.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static array allocate(shape_view, data_type, device) { return {}; }
#else
    static array allocate(data_type, shape_view, device) { return {}; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
