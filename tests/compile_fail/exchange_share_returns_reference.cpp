// expect: array_traits<T>::share must be public, static Owner share\(T const&\): .* and return by value an owner
// Through a reference the array would be copied, with its elements.
#include <ferry/exchange/to_dlpack.hpp>

struct array {
    float value = 1;
    ferry::tensor_view ferry_view() const { return {&value, {}}; }
};

template <>
struct ferry::array_traits<array> {
#ifdef FERRY_COMPILE_FAIL
    static array const& share(array const& a) { return a; }
#else
    static array share(array const& a) { return a; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(a); }
