// expect: array_traits<T>::ready_on must be public, static ferry::stream_token ready_on\(T const&\)
// Called with const arrays as well.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static stream_token ready_on(array&) { return already_ready; }
#else
    static stream_token ready_on(array const&) { return already_ready; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
