// expect: array_traits<T>::allocate must be public, .*and optionally a ferry::stream_token
// A handle does not contain its device (D5).
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static array allocate(data_type, shape_view, device, void*) { return {}; }
#else
    static array allocate(data_type, shape_view, device, stream_token) { return {}; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
