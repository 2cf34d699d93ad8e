// Static types of Python with the DLPack protocol: one uses ferry's methods, the other has methods of its own, as
// Cython's types have.
#include <ferry/python.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

namespace py = ferry::python;

/// Doubles in rows and columns. Copies share the memory.
struct samples {
    std::shared_ptr<ferry::managed_tensor> tensor;
    bool described = true;
};

}  // namespace

template <>
struct ferry::array_traits<samples> {
    static tensor_view view(samples const& s) {
        if (!s.described) throw std::runtime_error{"these samples have nulls"};
        return s.tensor->view();
    }
    static samples share(samples const& s) { return s; }
    static samples adopt(managed_tensor m) { return {std::make_shared<managed_tensor>(std::move(m))}; }
    static ferry::device device(samples const& s) { return s.tensor->device(); }
};

namespace {

struct object {
    PyObject base;
    samples value;
};

void destroy(PyObject* self) {
    py::kept_error const kept;  // the deleter of the tensor may run Python code
    reinterpret_cast<object*>(self)->value.~samples();
    Py_TYPE(self)->tp_free(self);
}

template <class Tag>
PyTypeObject static_type{};

template <class Tag>
PyObject* wrap_in(samples&& value) {
    PyObject* const self = static_type<Tag>.tp_alloc(&static_type<Tag>, 0);
    if (self != nullptr) new (&reinterpret_cast<object*>(self)->value) samples(std::move(value));
    return self;
}

template <class Tag>
samples* samples_in(PyObject* self) {
    return PyObject_TypeCheck(self, &static_type<Tag>) != 0 ? &reinterpret_cast<object*>(self)->value : nullptr;
}

/// Creates an object of n doubles 0, 1, …; `described` is false for one whose view throws.
template <class Tag>
PyObject* make(PyTypeObject*, PyObject* args, PyObject*) {
    Py_ssize_t n = 0;
    int described = 1;
    if (PyArg_ParseTuple(args, "n|p", &n, &described) == 0) return nullptr;
    return py::guarded([&] {
        std::vector<double> values(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
        std::array const extents{static_cast<std::int64_t>(n)};
        auto* const data = values.data();
        return wrap_in<Tag>({std::make_shared<ferry::managed_tensor>(
                                 ferry::make_managed(std::move(values), ferry::tensor_view{data, extents})),
                             described != 0});
    });
}

struct ready_made;
// [methods]
// The method table of a static type: `unwrap` finds the array in an object, `wrap` makes an object from an array.
constexpr auto unwrap = [](PyObject* o) { return samples_in<ready_made>(o); };
constexpr auto wrap = [](samples&& s) { return wrap_in<ready_made>(std::move(s)); };
PyMethodDef ready_made_methods[] = {
    py::dlpack_method<samples>(unwrap),
    py::dlpack_device_method<samples>(unwrap),
    py::from_dlpack_method<samples>(wrap),
    {},
};
// [/methods]
// [table]
// The exchange table, for the dictionary of a static type: set it before PyType_Ready.
bool add_exchange_api(PyTypeObject& type, PyObject* stolen_capsule) {
    py::reference const capsule{stolen_capsule};
    type.tp_dict = PyDict_New();
    return capsule && type.tp_dict != nullptr &&
           PyDict_SetItemString(type.tp_dict, "__dlpack_c_exchange_api__", capsule.get()) == 0;
}
// [/table]
// [buffer]
// The buffer protocol of the type: memoryview(x), bytes(x), np.asarray(x).
int get_buffer(PyObject* self, Py_buffer* out, int flags) {
    return py::get_buffer(samples_in<ready_made>(self)->tensor->view(), self, out, flags);
}
void release_buffer(PyObject*, Py_buffer* buffer) { py::release_buffer(buffer); }
PyBufferProcs buffer_of_ready_made{&get_buffer, &release_buffer};
// [/buffer]

struct hand_written;
// [own]
// User-defined methods that call ferry's functions. Each exception becomes a Python error.
PyObject* dlpack(PyObject* self, PyObject* args, PyObject* keywords) {
    return py::guarded(
        [&] { return py::export_capsule(*samples_in<hand_written>(self), py::parse_export_arguments(args, keywords)); });
}
PyObject* dlpack_device(PyObject* self, PyObject*) {
    return py::guarded([&] { return py::to_device_pair(ferry::device_of(*samples_in<hand_written>(self))); });
}
// [/own]
/// Returns the array by value, as a type does whose objects share their array with other threads.
constexpr auto unwrap_value = [](PyObject* o) {
    auto* const s = samples_in<hand_written>(o);
    return s != nullptr ? std::optional{*s} : std::nullopt;
};
/// Counts the arrays that the table imports, in its context.
constexpr auto wrap_counted = [](samples&& s, void* count) {
    ++*static_cast<int*>(count);
    return wrap_in<hand_written>(std::move(s));
};
int imports = 0;
PyObject* count_imports(PyObject*, PyObject*) { return PyLong_FromLong(imports); }

/// The values of a request as a tuple, for a tensor on a device: (stream, version, device, copy).
PyObject* request(PyObject*, PyObject* const* args, Py_ssize_t positional, PyObject* keywords) {
    return py::guarded([&]() -> PyObject* {
        auto const asked = py::convert_arguments(py::parse_export_arguments(args, positional, keywords));
        auto const req = py::to_request(asked, ferry::device{ferry::device_type::cuda, 1});
        auto const version = req.max_version;
        auto const dev = req.device.value_or(ferry::device{ferry::device_type::cuda, 1});
        return Py_BuildValue("(L(ii)(ii)i)", asked.stream.value_or(-9), version.major, version.minor,
                             static_cast<int>(dev.type), dev.id, static_cast<int>(req.copy));
    });
}
/// Imports an object with a request for a tensor on the host: the keywords are those of `__dlpack__`.
PyObject* import(PyObject*, PyObject* args, PyObject* keywords) {
    return py::guarded([&] {
        auto const asked = py::convert_arguments(py::parse_export_arguments(nullptr, keywords));
        return wrap_in<hand_written>(
            py::from_python<samples>(PyTuple_GET_ITEM(args, 0), py::to_request(asked, ferry::cpu)));
    });
}
PyObject* from_buffer(PyObject*, PyObject* x) {
    return py::guarded([&] {
        return wrap_in<hand_written>({std::make_shared<ferry::managed_tensor>(py::from_buffer(x))});
    });
}
PyMethodDef hand_written_methods[] = {
    {"from_buffer", &from_buffer, METH_O | METH_STATIC, nullptr},
    {"import_", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&import)),
     METH_VARARGS | METH_KEYWORDS | METH_STATIC, nullptr},
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&dlpack)), METH_VARARGS | METH_KEYWORDS,
     nullptr},
    {"__dlpack_device__", &dlpack_device, METH_NOARGS, nullptr},
    {"imports", &count_imports, METH_NOARGS | METH_STATIC, nullptr},
    {"request", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&request)),
     METH_FASTCALL | METH_KEYWORDS | METH_STATIC, nullptr},
    {},
};

template <class Tag>
bool add_type(PyObject* module, char const* name, char const* full_name, PyMethodDef* methods, PyObject* table) {
    auto& type = static_type<Tag>;
    Py_SET_REFCNT(reinterpret_cast<PyObject*>(&type), 1);  // never destroyed
    type.tp_name = full_name;
    type.tp_basicsize = sizeof(object);
    type.tp_dealloc = &destroy;
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    type.tp_methods = methods;
    type.tp_new = &make<Tag>;
    return add_exchange_api(type, table) && PyType_Ready(&type) == 0 && PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(&type)) == 0;
}

PyModuleDef definition{PyModuleDef_HEAD_INIT, "static_type", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_static_type() {
    py::reference module{PyModule_Create(&definition)};
#if defined(Py_GIL_DISABLED)
    if (!module || PyUnstable_Module_SetGIL(module.get(), Py_MOD_GIL_NOT_USED) != 0) return nullptr;
#endif
    static_type<ready_made>.tp_as_buffer = &buffer_of_ready_made;
    if (!module ||
        !add_type<ready_made>(module.get(), "ReadyMade", "static_type.ReadyMade", ready_made_methods,
                              py::exchange_api_capsule<samples>(unwrap, wrap)) ||
        !add_type<hand_written>(module.get(), "HandWritten", "static_type.HandWritten", hand_written_methods,
                                py::exchange_api_capsule<samples>(unwrap_value, wrap_counted, {}, &imports)))
        return nullptr;
    return module.release();
}
