// expect: array_traits<T> has no static member function view\(T&\)
#include <ferry/exchange/to_dlpack.hpp>

#include <utility>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
#ifdef FERRY_COMPILE_FAIL
    static array share(array const& a) { return a; }
#else
    static tensor_view view(array& a) { return {&a.value, {}}; }
#endif
};

auto exported(array& a) { return ferry::to_dlpack(std::move(a)); }
