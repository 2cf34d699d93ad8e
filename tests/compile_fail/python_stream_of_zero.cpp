// expect: streams are (not|neither) integers.* pass stream_token::.*, or \{\} for no stream
// A stream without a family (R44, R45), in the braces of a request to a Python object.
#include <ferry/python/import.hpp>

auto f(PyObject* x) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::python::from_python<ferry::managed_tensor>(x, {.stream = 0});
#else
    return ferry::python::from_python<ferry::managed_tensor>(x, {.stream = {}});
#endif
}
