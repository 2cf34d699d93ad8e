// expect: unwrap\(PyObject\*\) must return a T\*, a T&, a std::optional<T> or a smart pointer to T
// R69: the methods of a Python type get the array of an object from unwrap.
#include <ferry/python.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
    static array share(array const& a) { return a; }
};

array held;

#ifdef FERRY_COMPILE_FAIL
auto method() { return ferry::python::dlpack_method<array>([](PyObject*) { return held; }); }
#else
auto method() { return ferry::python::dlpack_method<array>([](PyObject*) { return &held; }); }
#endif
