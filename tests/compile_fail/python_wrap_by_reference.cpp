// expect: wrap must take \(T&&\) or \(T&&, Context\*\), such as \(T&&, PyTypeObject\*\), and return a PyObject\*
// R74: an import passes ownership of the array to the new object.
#include <ferry/python.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
    static array adopt(managed_tensor) { return {}; }
};

#ifdef FERRY_COMPILE_FAIL
auto method() {
    return ferry::python::from_dlpack_method<array>([](array&) -> PyObject* { return nullptr; });
}
#else
auto method() {
    return ferry::python::from_dlpack_method<array>([](array&&) -> PyObject* { return nullptr; });
}
#endif
