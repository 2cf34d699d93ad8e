// ferry: `__dlpack__`, `__dlpack_device__` and `from_dlpack` as entries of a table of methods, also for static types.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/export.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/unwrap.hpp>

#include <ferry/exchange/consumer.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/space/back_end.hpp>

#include <concepts>
#include <type_traits>

namespace FERRY_NAMESPACE::python {

namespace detail {

/// Casts a function with keyword arguments to the type of the entries of a table of methods.
/// \return          the same function
[[nodiscard]] inline PyCFunction with_keywords(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t,
                                                                     PyObject*)) noexcept {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

/// The exporting methods of one array type, with the signatures that CPython calls.
template <class T, class Unwrap, class BackEnd>
struct FERRY_HIDDEN export_methods {
    static PyObject* dlpack(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* keywords) noexcept {
        return guarded([&] {
            // First: the conversion may run Python code that replaces the array in the object.
            auto const asked = convert_arguments(parse_export_arguments(args, positional, keywords));
            array_in<T, Unwrap> array{self};
            BackEnd b{};
            return export_capsule(*array, asked, b);
        });
    }
    static PyObject* dlpack_device(PyObject* self, PyObject*) noexcept {
        return guarded([&] {
            array_in<T, Unwrap> array{self};
            return to_device_pair(device_of(*array));
        });
    }

    [[nodiscard]] static PyMethodDef define_dlpack() noexcept {
        return {"__dlpack__", with_keywords(&dlpack), METH_FASTCALL | METH_KEYWORDS,
                PyDoc_STR("__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
                          "Export as a DLPack capsule: shared when possible, copied when requested or required.")};
    }
    [[nodiscard]] static PyMethodDef define_device() noexcept {
        return {"__dlpack_device__", &dlpack_device, METH_NOARGS,
                PyDoc_STR("__dlpack_device__($self, /)\n--\n\nThe DLPack device of the data, a pair (type, id).")};
    }

    /// Returns the definitions for descriptors, which refer to them. Not initialised before the first call.
    [[nodiscard]] static PyMethodDef* dlpack_definition() noexcept {
        static PyMethodDef definition = define_dlpack();
        return &definition;
    }
    [[nodiscard]] static PyMethodDef* device_definition() noexcept {
        static PyMethodDef definition = define_device();
        return &definition;
    }
};

/// The arguments of `from_dlpack`: an object and a request.
struct import_arguments {
    PyObject* from;
    request req;
};

/// Parses the arguments of `from_dlpack(x, /, *, device=None, copy=None)`.
/// \return            arguments
/// \throws error_is_set  TypeError for an unknown keyword or another number of positional arguments; errors of
///                       copy_from and as_device
[[nodiscard]] inline import_arguments parse_import_arguments(PyObject* const* args, Py_ssize_t positional,
                                                             PyObject* keywords) {
    if (positional != 1)
        raise(PyExc_TypeError, "from_dlpack()", " takes one positional argument and the keywords device and copy");
    import_arguments given{args[0], {}};
    Py_ssize_t const count = keywords != nullptr ? tuple_size(keywords) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* const name = tuple_item(keywords, i);
        PyObject* const value = args[positional + i];
        if (is_named(name, names().copy)) {
            given.req.copy = copy_from(value);
        } else if (is_named(name, names().device)) {
            if (value == Py_None) continue;
            given.req.device = as_device(value);
            if (!given.req.device) throw error_is_set{};
        } else {
            PyErr_Format(PyExc_TypeError, "from_dlpack() got an unexpected keyword argument '%U'", name);
            throw error_is_set{};
        }
    }
    return given;
}

/// The importing method of one array type, with the signature that CPython calls.
template <class T, class Wrap, class BackEnd>
struct FERRY_HIDDEN import_method {
    static PyObject* from_dlpack(PyObject* type, PyObject* const* args, Py_ssize_t positional,
                                 PyObject* keywords) noexcept {
        return guarded([&] {
            auto const given = parse_import_arguments(args, positional, keywords);
            BackEnd b{};
            return wrap_array<Wrap, T>(from_python<T>(given.from, given.req, b), reinterpret_cast<PyTypeObject*>(type));
        });
    }

    [[nodiscard]] static PyMethodDef define(int kind) noexcept {
        return {"from_dlpack", with_keywords(&from_dlpack), METH_FASTCALL | METH_KEYWORDS | kind,
                PyDoc_STR("from_dlpack(x, /, *, device=None, copy=None)\n--\n\n"
                          "Import from an object with __dlpack__, or a raw capsule: shared when possible.")};
    }

    /// Returns the definition for a function object, which refers to it.
    [[nodiscard]] static PyMethodDef* definition() noexcept {
        static PyMethodDef of_function = define(0);
        return &of_function;
    }
};

}  // namespace detail

/// Returns the method `__dlpack__` for a table of methods, such as `tp_methods` of a static type (R52).
///
/// \tparam T        array type whose array_traits has view and share
/// \tparam BackEnd  stateless back end; the default supports the host only
/// \param unwrap    captureless lambda: `unwrap(PyObject*)` returns the T in an object; see `unwraps`
/// \param b         back end
/// \return          definition of the method
template <class T, class Unwrap, class BackEnd = host_back_end>
[[nodiscard]] PyMethodDef dlpack_method([[maybe_unused]] Unwrap unwrap, [[maybe_unused]] BackEnd b = {}) noexcept {
    static_assert(ferry::detail::is_adapted<T>() && detail::is_stateless_back_end<BackEnd>());
    static_assert(shareable<T>, "ferry: Python keeps the array, so exports need array_traits<T>::share");
    static_assert(detail::is_unwrap<T, Unwrap>());
    return detail::export_methods<T, Unwrap, BackEnd>::define_dlpack();
}

/// Returns the method `__dlpack_device__` for a table of methods (R37). The method calls array_traits<T>::device if it
/// exists, and array_traits<T>::view otherwise.
///
/// \tparam T        array type whose array_traits has view and share
/// \tparam BackEnd  stateless back end; the same type as for dlpack_method
/// \param unwrap    as for dlpack_method
/// \param b         back end
/// \return          definition of the method
template <class T, class Unwrap, class BackEnd = host_back_end>
[[nodiscard]] PyMethodDef dlpack_device_method([[maybe_unused]] Unwrap unwrap,
                                               [[maybe_unused]] BackEnd b = {}) noexcept {
    static_assert(ferry::detail::is_adapted<T>() && detail::is_stateless_back_end<BackEnd>());
    static_assert(shareable<T>, "ferry: Python keeps the array, so exports need array_traits<T>::share");
    static_assert(detail::is_unwrap<T, Unwrap>());
    return detail::export_methods<T, Unwrap, BackEnd>::define_device();
}

/// Returns the class method `from_dlpack(x, /, *, device=None, copy=None)` for a table of methods.
///
/// \tparam T        array type whose array_traits has adopt
/// \tparam BackEnd  stateless back end; the default supports the host only
/// \param wrap      captureless lambda: `wrap(T&&)` or `wrap(T&&, PyTypeObject*)` returns a new object; see `wraps`.
///                  The second argument is the class on which the method is called
/// \param b         back end
/// \return          definition of the method
template <class T, class Wrap, class BackEnd = host_back_end>
[[nodiscard]] PyMethodDef from_dlpack_method([[maybe_unused]] Wrap wrap, [[maybe_unused]] BackEnd b = {}) noexcept {
    static_assert(ferry::detail::is_adapted<T>() && detail::is_stateless_back_end<BackEnd>());
    static_assert(consumer<T>, "ferry: imports need array_traits<T>::adopt");
    static_assert(detail::is_wrap<T, Wrap, PyTypeObject>());
    // CPython passes no type to a function with METH_STATIC.
    return detail::import_method<T, Wrap, BackEnd>::define(METH_CLASS);
}

}  // namespace FERRY_NAMESPACE::python
