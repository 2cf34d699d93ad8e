// expect: array_traits<T>::share must be .*return by value an owner with a view
// ferry needs the view of the owner.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
#ifdef FERRY_COMPILE_FAIL
    static float share(array const& a) { return a.value; }
#else
    static array share(array const& a) { return a; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a); }
