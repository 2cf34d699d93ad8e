// An extension module for the stable ABI: compiled once, with the limited API of CPython 3.12, and loaded by every later
// version.
#include <ferry/python.hpp>
#include <ferry/python/arrow.hpp>
#include <ferry/python/caster.hpp>

#include <ferry/base/error.hpp>
#include <ferry/column/from_tensors.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#ifndef Py_TPFLAGS_DISALLOW_INSTANTIATION  // before CPython 3.10
#define Py_TPFLAGS_DISALLOW_INSTANTIATION 0
#endif

namespace {

namespace py = ferry::python;

/// Doubles. Copies share the memory.
struct samples {
    std::shared_ptr<ferry::managed_tensor> tensor;
};

/// A Python object that holds a value.
template <class T>
struct object {
    PyObject base;
    T value;

    static inline PyTypeObject* type = nullptr;

    static PyObject* make(T&& value) {
        PyObject* const self = PyType_GenericAlloc(type, 0);
        if (self != nullptr) new (&reinterpret_cast<object*>(self)->value) T(std::move(value));
        return self;
    }
    static T* value_in(PyObject* self) {
        return PyObject_TypeCheck(self, type) != 0 ? &reinterpret_cast<object*>(self)->value : nullptr;
    }
    static void destroy(PyObject* self) {
        py::kept_error const kept;
        PyTypeObject* const own = Py_TYPE(self);
        reinterpret_cast<object*>(self)->value.~T();
        PyObject_Free(self);
        Py_DECREF(own);
    }
};

}  // namespace

template <>
struct ferry::array_traits<samples> {
    static tensor_view view(samples const& s) { return s.tensor->view(); }
    static samples share(samples const& s) { return s; }
    static samples adopt(managed_tensor m) { return {std::make_shared<managed_tensor>(std::move(m))}; }
};

namespace {

ferry::managed_tensor count_up(std::int64_t n) {
    std::vector<double> values(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = static_cast<double>(i);
    ferry::tensor_view const v{values.data(), {&n, 1}};
    return ferry::make_managed(std::move(values), v);
}

/// Calls a function with the integer in an argument.
template <class F>
PyObject* with_number(PyObject* argument, F f) {
    return py::guarded([&]() -> PyObject* {
        long long const n = PyLong_AsLongLong(argument);
        return n == -1 && PyErr_Occurred() != nullptr ? nullptr : f(n);
    });
}
PyObject* make_samples(PyObject*, PyObject* n) {
    return with_number(n, [](long long size) {
        return object<samples>::make({std::make_shared<ferry::managed_tensor>(count_up(size))});
    });
}
PyObject* make_column(PyObject*, PyObject* n) {
    return with_number(
        n, [](long long size) { return object<ferry::column>::make(ferry::from_tensors(count_up(size))); });
}
/// Returns a ferry.Tensor.
PyObject* make_result(PyObject*, PyObject* n) {
    return with_number(n, [](long long size) { return py::to_python(count_up(size)); });
}
/// Returns the code of the error of an import, or None.
PyObject* code_of(PyObject*, PyObject* x) {
    auto const got = py::try_from_python<samples>(x, {});
    if (got) Py_RETURN_NONE;
    return PyUnicode_FromString(ferry::name(got.error().code()));
}
/// Imports an object of a producer that allows writes although its struct is the legacy one.
PyObject* import_writable(PyObject*, PyObject* x) {
    return py::guarded([&] {
        return object<samples>::make(py::from_python<samples>(x, {}, ferry::host_only, ferry::flags::none));
    });
}
/// The sum of an argument of a bound function.
PyObject* sum(PyObject*, PyObject* x) {
    return py::guarded([&]() -> PyObject* {
        py::detail::loader<ferry::typed_view<double const, 1>, py::detail::options<>> argument;
        if (!argument.load(x, true)) Py_RETURN_NONE;
        double total = 0;
        for (double const value : *argument.value) total += value;
        return PyFloat_FromDouble(total);
    });
}
PyObject* from_buffer(PyObject*, PyObject* x) {
    return py::guarded([&] {
        return object<samples>::make({std::make_shared<ferry::managed_tensor>(py::from_buffer(x))});
    });
}

int get_buffer(PyObject* self, Py_buffer* out, int flags) {
    return py::get_buffer(object<samples>::value_in(self)->tensor->view(), self, out, flags);
}
void release_buffer(PyObject*, Py_buffer* buffer) { py::release_buffer(buffer); }

/// Creates a type, and adds it to the module.
template <class T, class... Slots>
bool add_type(PyObject* module, char const* name, Slots... more) {
    PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&object<T>::destroy)}, more..., {0, nullptr}};
    PyType_Spec spec{name, sizeof(object<T>), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    object<T>::type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return object<T>::type != nullptr && PyModule_AddType(module, object<T>::type) == 0;
}

PyMethodDef functions[] = {
    {"samples", &make_samples, METH_O, nullptr},
    {"column", &make_column, METH_O, nullptr},
    {"result", &make_result, METH_O, nullptr},
    {"code_of", &code_of, METH_O, nullptr},
    {"import_writable", &import_writable, METH_O, nullptr},
    {"sum", &sum, METH_O, nullptr},
    {"from_buffer", &from_buffer, METH_O, nullptr},
    {},
};
PyModuleDef definition{PyModuleDef_HEAD_INIT, "stable_abi", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_stable_abi() {
    py::reference module{PyModule_Create(&definition)};
    bool const is_complete =
        module &&
        add_type<samples>(module.get(), "stable_abi.Samples",
                          PyType_Slot{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)},
                          PyType_Slot{Py_bf_releasebuffer, reinterpret_cast<void*>(&release_buffer)}) &&
        add_type<ferry::column>(module.get(), "stable_abi.Column") &&
        py::install_dlpack<samples>(
            object<samples>::type, [](PyObject* o) { return object<samples>::value_in(o); },
            [](samples&& s) { return object<samples>::make(std::move(s)); }) &&
        py::install_arrow(
            object<ferry::column>::type,
            [](PyObject* o) -> ferry::column const* { return object<ferry::column>::value_in(o); },
            [](ferry::column&& c) { return object<ferry::column>::make(std::move(c)); });
    return is_complete ? module.release() : nullptr;
}
