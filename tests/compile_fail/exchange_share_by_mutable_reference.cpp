// expect: array_traits<T>::share must be public, static Owner share\(T const&\)
// `share` is also called for const arrays.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static array share(array& a) { return a; }
#else
    static array share(array const& a) { return a; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a); }
