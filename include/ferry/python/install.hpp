// ferry: adds the complete protocol to a Python type.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/exchange_api.hpp>
#include <ferry/python/methods.hpp>
#include <ferry/python/object.hpp>

namespace ferry::inline v0::python {

namespace detail {

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
    using exports = detail::export_methods<T, Unwrap, BackEnd>;
    if (!detail::can_install(type, "DLPack")) return false;
    auto* const from_dlpack = &detail::import_method<T, Wrap, BackEnd>::definition;
    reference function{PyCFunction_New(from_dlpack, nullptr)};
    auto const* table = &detail::exchange_table<T, Unwrap, Wrap, BackEnd>::table;
    return function && detail::set_attribute(type, "__dlpack__", PyDescr_NewMethod(type, &exports::dlpack_definition)) &&
           detail::set_attribute(type, "__dlpack_device__", PyDescr_NewMethod(type, &exports::device_definition)) &&
           detail::set_attribute(type, "from_dlpack", PyStaticMethod_New(function.get())) &&
           detail::set_attribute(
               type, abi::exchange_api_attribute,
               PyCapsule_New(const_cast<abi::exchange_api*>(table), abi::exchange_api_capsule, nullptr));
}

}  // namespace ferry::inline v0::python
