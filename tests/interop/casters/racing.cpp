// Functions without a binding library, whose locks ThreadSanitizer does not know: results, and registered exceptions. See
// racing.py.
#include <ferry/python.hpp>
#include <ferry/python/result.hpp>

#include <stdexcept>

namespace {

namespace py = ferry::python;

struct failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct other_failure : failure {
    using failure::failure;
};

template <class... Options>
PyObject* exported(PyObject*, PyObject* x) {
    return py::guarded([&] { return py::to_python<Options...>(py::from_python<ferry::managed_tensor>(x, {})); });
}

PyObject* exported_like(PyObject*, PyObject* arguments) {
    PyObject *x = nullptr, *like = nullptr;
    if (PyArg_UnpackTuple(arguments, "like", 2, 2, &x, &like) == 0) return nullptr;
    return py::guarded([&] { return py::to_python(py::from_python<ferry::managed_tensor>(x, {}), like); });
}

template <class E>
PyObject* fail(PyObject*, PyObject* type) {
    return py::guarded([&]() -> PyObject* {
        py::register_exception<E>(type);
        throw E{"failed"};
    });
}

PyMethodDef functions[] = {
    {"tensor", &exported<>, METH_O, nullptr},
    {"from_dlpack", &exported<>, METH_O, nullptr},
    {"through_from_dlpack", &exported<py::library<"racing">>, METH_O, nullptr},
    {"like", &exported_like, METH_VARARGS, nullptr},
    {"fail", &fail<failure>, METH_O, nullptr},
    {"fail_otherwise", &fail<other_failure>, METH_O, nullptr},
    {},
};
PyModuleDef definition{PyModuleDef_HEAD_INIT, "racing", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

// [module]
PyMODINIT_FUNC PyInit_racing() {
    py::reference module{PyModule_Create(&definition)};
#if defined(Py_GIL_DISABLED)
    if (module && PyUnstable_Module_SetGIL(module.get(), Py_MOD_GIL_NOT_USED) != 0) return nullptr;
#endif
    return module.release();
}
// [/module]
