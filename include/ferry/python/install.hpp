// ferry: adds the DLPack protocol to a Python type.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/exchange_api.hpp>
#include <ferry/python/methods.hpp>
#include <ferry/python/object.hpp>

namespace FERRY_NAMESPACE::python {

namespace detail {

/// Returns whether methods can be added to a type in the current interpreter.
/// \return      false with a Python error set
[[nodiscard]] FERRY_COLD inline bool can_install(PyTypeObject* type, char const* what) noexcept {
    if (!check_interpreter()) return false;
    bool immutable = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) == 0;
#ifdef Py_TPFLAGS_IMMUTABLETYPE
    immutable = immutable || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE) != 0;
#endif
    if (immutable) {
        PyErr_Format(
            PyExc_TypeError,
            "cannot install %s on immutable type '%s': create it with PyType_FromSpec, without "
            "Py_TPFLAGS_IMMUTABLETYPE",
            what, type_name{type}.text());
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

[[nodiscard]] FERRY_COLD inline bool set_attribute(PyTypeObject* type, char const* name,
                                                    PyObject* stolen) noexcept {
    reference value{stolen};
    return value && PyObject_SetAttrString(reinterpret_cast<PyObject*>(type), name, value.get()) == 0;
}

}  // namespace detail

/// Adds `__dlpack__` and `__dlpack_device__` to a Python type. Requires the GIL and the main interpreter.
///
/// \tparam T        array type whose array_traits has view and share
/// \tparam BackEnd  stateless back end; the default supports the host only
/// \param type      mutable type: a heap type without Py_TPFLAGS_IMMUTABLETYPE
/// \param unwrap    captureless lambda: `unwrap(PyObject*)` returns the T in an object; see `unwraps`
/// \param b         back end
/// \return          true on success; otherwise false with a Python error set: ImportError in a sub-interpreter,
///                  TypeError for an immutable type
template <class T, class Unwrap, class BackEnd = host_back_end>
[[nodiscard]] bool install_exports(PyTypeObject* type, Unwrap unwrap, BackEnd b = {}) noexcept {
    static_cast<void>(dlpack_method<T>(unwrap, b));  // checks the arguments
    using exports = detail::export_methods<T, Unwrap, BackEnd>;
    return detail::can_install(type, "DLPack") &&
           detail::set_attribute(type, "__dlpack__", PyDescr_NewMethod(type, exports::dlpack_definition())) &&
           detail::set_attribute(type, "__dlpack_device__", PyDescr_NewMethod(type, exports::device_definition()));
}

/// Adds the static method `from_dlpack(x, /, *, device=None, copy=None)` to a Python type. Requires the GIL and the
/// main interpreter.
///
/// \tparam T        array type whose array_traits has adopt
/// \tparam BackEnd  stateless back end; the default supports the host only
/// \param type      mutable type
/// \param wrap      captureless lambda: `wrap(T&&)` or `wrap(T&&, PyTypeObject*)` returns a new object; see `wraps`.
///                  The second argument is `type`
/// \param b         back end
/// \return          true on success; otherwise false with a Python error set, as for install_exports
template <class T, class Wrap, class BackEnd = host_back_end>
[[nodiscard]] bool install_from_dlpack(PyTypeObject* type, Wrap wrap, BackEnd b = {}) noexcept {
    static_cast<void>(from_dlpack_method<T>(wrap, b));
    if (!detail::can_install(type, "DLPack")) return false;
    auto* const from_dlpack = detail::import_method<T, Wrap, BackEnd>::definition();
    reference function{PyCFunction_New(from_dlpack, reinterpret_cast<PyObject*>(type))};
    return function && detail::set_attribute(type, "from_dlpack", function.release());
}

/// Adds the exchange table `__dlpack_c_exchange_api__` to a Python type (R69). Requires the GIL and the main
/// interpreter.
///
/// \tparam T        array type whose array_traits has view, share and adopt
/// \tparam BackEnd  stateless back end; the default supports the host only
/// \param type      mutable type
/// \param unwrap    captureless lambda: `unwrap(PyObject*)` returns the T in an object; see `unwraps`
/// \param wrap      captureless lambda: `wrap(T&&)` or `wrap(T&&, PyTypeObject*)` returns a new object; see `wraps`.
///                  A lambda of the second form can be used for one Python type only
/// \param b         back end
/// \return          true on success; otherwise false with a Python error set, as for install_exports, or
///                  ValueError if `wrap` has the second form and was used for another Python type
template <class T, class Unwrap, class Wrap, class BackEnd = host_back_end>
[[nodiscard]] bool install_exchange_api(PyTypeObject* type, Unwrap unwrap, Wrap wrap, BackEnd b = {}) noexcept {
    return detail::can_install(type, "DLPack") &&
           detail::set_attribute(type, abi::exchange_api_attribute, exchange_api_capsule<T>(unwrap, wrap, b, type));
}

/// Adds the DLPack protocol to a Python type: install_exports, install_from_dlpack and install_exchange_api.
///
/// Requires the GIL and the main interpreter, because the DLPackExchangeAPI struct and cached Python objects exist
/// until the process ends. Call this function during the initialisation of the module.
///
/// \tparam T        array type whose array_traits has view, share and adopt
/// \tparam BackEnd  stateless back end; the default supports the host only
/// \param type      mutable type: a heap type without Py_TPFLAGS_IMMUTABLETYPE
/// \param unwrap    captureless lambda: `unwrap(PyObject*)` returns the T in an object as a `T*`, as a `T&`, or in an
///                  optional or smart pointer; see `unwraps`
/// \param wrap      captureless lambda: `wrap(T&&)` or `wrap(T&&, PyTypeObject*)` returns a new object, or null with a
///                  Python error set
/// \param b         back end
/// \return          true on success; otherwise false with a Python error set, as for install_exchange_api
template <class T, class Unwrap, class Wrap, class BackEnd = host_back_end>
[[nodiscard]] bool install_dlpack(PyTypeObject* type, Unwrap unwrap, Wrap wrap, BackEnd b = {}) noexcept {
    return install_exports<T>(type, unwrap, b) && install_from_dlpack<T>(type, wrap, b) &&
           install_exchange_api<T>(type, unwrap, wrap, b);
}

}  // namespace FERRY_NAMESPACE::python
