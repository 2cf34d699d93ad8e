// expect: pass lambdas without captures
// R69: C functions without a context call unwrap.
#include <ferry/python.hpp>

struct array {
    float value = 1;
};

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {&a.value, {}}; }
    static array share(array const& a) { return a; }
};

array* find(PyObject*);

#ifdef FERRY_COMPILE_FAIL
auto method() { return ferry::python::dlpack_method<array>(&find); }
#else
auto method() {
    return ferry::python::dlpack_method<array>([](PyObject* o) { return find(o); });
}
#endif
