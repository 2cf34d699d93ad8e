// ferry: adds the complete protocol to a Python type.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/exchange_api.hpp>
#include <ferry/python/export.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/object.hpp>

#include <concepts>
#include <type_traits>

namespace ferry::inline v0::python {

/// A function object without state, such as a captureless lambda, that C callbacks can default-construct.
template <class F>
concept stateless = std::is_empty_v<F> && std::default_initializable<F>;

namespace detail {

/// The methods of one array type, with the signatures that CPython calls.
template <class T, class Unwrap, class Wrap, class BackEnd>
struct FERRY_HIDDEN methods {
    static PyObject* dlpack(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* keywords) noexcept {
        try {
            BackEnd b{};
            return export_capsule(unwrap(self), parse_export_arguments(args, positional, keywords), b);
        } catch (...) {
            translate_exception();
            return nullptr;
        }
    }

    static PyObject* dlpack_device(PyObject* self, PyObject*) noexcept {
        try {
            device dev = view_of(unwrap(self)).device();
            if (ignores_id(dev.type)) dev.id = 0;  // R35
            return Py_BuildValue("(ii)", static_cast<int>(dev.type), static_cast<int>(dev.id));
        } catch (...) {
            translate_exception();
            return nullptr;
        }
    }

    static PyObject* from_dlpack(PyObject*, PyObject* const* args, Py_ssize_t positional, PyObject* keywords) noexcept {
        try {
            if (positional != 1)
                raise(PyExc_TypeError, "from_dlpack() takes one positional argument and the keywords device and copy");
            request req;
            Py_ssize_t const count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
            for (Py_ssize_t i = 0; i < count; ++i) {
                PyObject* const name = PyTuple_GET_ITEM(keywords, i);
                PyObject* const value = args[positional + i];
                if (is_named(name, names().copy)) {
                    req.copy = copy_from(value);
                } else if (is_named(name, names().device)) {
                    if (value == Py_None) continue;
                    req.device = as_device(value);
                    if (!req.device) throw error_is_set{};
                } else {
                    PyErr_Format(PyExc_TypeError, "from_dlpack() got an unexpected keyword argument '%U'", name);
                    throw error_is_set{};
                }
            }
            BackEnd b{};
            return Wrap{}(from_python<T>(args[0], req, b));
        } catch (...) {
            translate_exception();
            return nullptr;
        }
    }

    static inline PyMethodDef table[] = {
        {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&dlpack)),
         METH_FASTCALL | METH_KEYWORDS,
         PyDoc_STR("__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
                   "Export as a DLPack capsule: shared when possible, copied when requested or required.")},
        {"__dlpack_device__", &dlpack_device, METH_NOARGS,
         PyDoc_STR("__dlpack_device__($self, /)\n--\n\nThe DLPack device of the data, a pair (type, id).")},
        {"from_dlpack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&from_dlpack)),
         METH_FASTCALL | METH_KEYWORDS,
         PyDoc_STR("from_dlpack(x, /, *, device=None, copy=None)\n--\n\n"
                   "Import from an object with __dlpack__, or a raw capsule: shared when possible.")},
    };

   private:
    [[nodiscard]] static T& unwrap(PyObject* self) {
        T* const array = Unwrap{}(self);
        if (array == nullptr)
            raise(PyExc_TypeError, "the object is not of the type that these methods were installed on");
        return *array;
    }
};

/// Returns whether methods can be added to a type in the current interpreter.
///
/// \param type  type
/// \param what  protocol, for the message
/// \return      false with a Python error set
[[nodiscard]] inline bool can_install(PyTypeObject* type, char const* what) noexcept {
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "ferry does not support sub-interpreters: import the module in the main interpreter");
        return false;
    }
    bool immutable = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) == 0;
#ifdef Py_TPFLAGS_IMMUTABLETYPE
    immutable = immutable || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) != 0;
#endif
    if (immutable) {
        PyErr_Format(
            PyExc_TypeError,
            "cannot install %s on immutable type '%s': create it with PyType_FromSpec, without "
            "Py_TPFLAGS_IMMUTABLETYPE",
            what, type->tp_name);
        return false;
    }
    try {
        static_cast<void>(names());
    } catch (...) {
        translate_exception();
        return false;
    }
    return true;
}

[[nodiscard]] inline bool set_attribute(PyTypeObject* type, char const* name, PyObject* stolen) noexcept {
    reference value{stolen};
    return value && PyObject_SetAttrString(reinterpret_cast<PyObject*>(type), name, value.get()) == 0;
}

}  // namespace detail

/// Adds the DLPack protocol to a Python type: `__dlpack__`, `__dlpack_device__`, `__dlpack_c_exchange_api__`, and a
/// static method `from_dlpack(x, /, *, device=None, copy=None)`.
///
/// Requires the GIL and the main interpreter, because the DLPackExchangeAPI struct and cached Python objects exist
/// until the process ends. Call it during the initialisation of the module.
///
/// \tparam T        array type whose array_traits has view, share and adopt
/// \tparam BackEnd  stateless back end; the default supports the host only
/// \param type      mutable type: a heap type without Py_TPFLAGS_IMMUTABLETYPE
/// \param unwrap    captureless lambda; `unwrap(PyObject*)` returns a pointer to the T in an object, or null without a
///                  Python error for an object of another type
/// \param wrap      captureless lambda; `wrap(T&&)` returns a new object, or null with a Python error set
/// \param b         back end
/// \return          false with a Python error set: ImportError in a sub-interpreter, TypeError for an immutable type
template <class T, stateless Unwrap, stateless Wrap, class BackEnd = host_back_end>
[[nodiscard]] bool install_dlpack(PyTypeObject* type, [[maybe_unused]] Unwrap unwrap,
                                  [[maybe_unused]] Wrap wrap, [[maybe_unused]] BackEnd b = {}) noexcept {
    static_assert(ferry::detail::is_adapted<T>());
    static_assert(shareable<T>, "ferry: Python keeps the array, so exports need array_traits<T>::share");
    static_assert(consumer<T>, "ferry: imports need array_traits<T>::adopt");
    static_assert(back_end<BackEnd> && std::default_initializable<BackEnd>,
                  "ferry: the methods of a type need a stateless back end");
    using methods = detail::methods<T, Unwrap, Wrap, BackEnd>;
    if (!detail::can_install(type, "DLPack")) return false;
    reference function{PyCFunction_New(&methods::table[2], nullptr)};
    auto const* table = &detail::exchange_table<T, Unwrap, Wrap, BackEnd>::table;
    return function && detail::set_attribute(type, "__dlpack__", PyDescr_NewMethod(type, &methods::table[0])) &&
           detail::set_attribute(type, "__dlpack_device__", PyDescr_NewMethod(type, &methods::table[1])) &&
           detail::set_attribute(type, "from_dlpack", PyStaticMethod_New(function.get())) &&
           detail::set_attribute(
               type, abi::exchange_api_attribute,
               PyCapsule_New(const_cast<abi::exchange_api*>(table), abi::exchange_api_capsule, nullptr));
}

}  // namespace ferry::inline v0::python
