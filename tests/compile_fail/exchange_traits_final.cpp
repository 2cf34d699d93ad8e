// expect: array_traits<T> must not be final: ferry derives from it to see which names it declares
// Other members with wrong signatures would be ignored silently.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
#ifdef FERRY_COMPILE_FAIL
struct ferry::array_traits<array> final {
#else
struct ferry::array_traits<array> {
#endif
    static tensor_view view(array const& a) { return {&a.value, {}}; }
};

auto exported(array& a) { return ferry::to_dlpack(a, {.copy = ferry::copy_policy::always}); }
