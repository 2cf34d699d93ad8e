// ferry: adds Arrow's PyCapsule interface and the DLPack protocol to a Python type that holds a column.
#pragma once

#include <ferry/python/arrow_export.hpp>
#include <ferry/python/arrow_import.hpp>
#include <ferry/python/column_dlpack.hpp>
#include <ferry/python/detail/arrow_capsule.hpp>
#include <ferry/python/install.hpp>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// The methods of a column type, with the signatures that CPython calls.
template <class Unwrap, class Wrap, class BackEnd>
struct FERRY_HIDDEN column_methods {
    using column_in = array_in<column const, Unwrap>;

    static PyObject* schema(PyObject* self, PyObject*) noexcept {
        return guarded([&] { return arrow_schema_capsule((*column_in{self}).view()); });
    }
    /// The column, as the arguments of a method for Arrow's structs request it.
    static column requested(char const* method, bool allow_keywords, PyObject* self, PyObject* const* args,
                            Py_ssize_t positional, PyObject* keywords) {
        auto* const schema = parse_arrow_arguments(method, args, positional, keywords, allow_keywords);
        return requested_column(method, *column_in{self}, schema);
    }
    static PyObject* array(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* keywords) noexcept {
        return guarded([&] {
            auto const c = requested("__arrow_c_array__", false, self, args, positional, keywords);
            return arrow_array_capsules(c);
        });
    }
    static PyObject* device_array(PyObject* self, PyObject* const* args, Py_ssize_t positional,
                                  PyObject* keywords) noexcept {
        return guarded([&] {
            auto const c = requested("__arrow_c_device_array__", true, self, args, positional, keywords);
            return arrow_device_array_capsules(c);
        });
    }
    // Streams of one chunk.
    static PyObject* stream(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* keywords) noexcept {
        return guarded([&] {
            auto const c = requested("__arrow_c_stream__", false, self, args, positional, keywords);
            return arrow_stream_capsule(chunked{c});
        });
    }
    static PyObject* device_stream(PyObject* self, PyObject* const* args, Py_ssize_t positional,
                                   PyObject* keywords) noexcept {
        return guarded([&] {
            auto const c = requested("__arrow_c_device_stream__", true, self, args, positional, keywords);
            return arrow_device_stream_capsule(chunked{c});
        });
    }
    static PyObject* from_arrow(PyObject*, PyObject* x) noexcept {
        return guarded([&] {
            BackEnd b{};
            return Wrap{}(column_from_python(x, b));
        });
    }
    static PyObject* dlpack(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* keywords) noexcept {
        return guarded([&] {
            BackEnd b{};
            // First: the conversion may run Python code that replaces the column in the object.
            auto const asked = convert_arguments(parse_export_arguments(args, positional, keywords));
            column_in held{self};
            return export_column_capsule(*held, asked, b);
        });
    }
    static PyObject* dlpack_device(PyObject* self, PyObject*) noexcept {
        return guarded([&] { return to_device_pair((*column_in{self}).device()); });
    }

    static inline PyMethodDef table[] = {
        {"__arrow_c_schema__", &schema, METH_NOARGS,
         PyDoc_STR("__arrow_c_schema__($self, /)\n--\n\nReturn the type as an 'arrow_schema' capsule.")},
        {"__arrow_c_array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&array)),
         METH_FASTCALL | METH_KEYWORDS,
         PyDoc_STR("__arrow_c_array__($self, /, requested_schema=None)\n--\n\n"
                   "Return a pair of capsules, 'arrow_schema' and 'arrow_array', that share the memory. "
                   "What requested_schema asks for is converted if no value changes.")},
        {"__arrow_c_device_array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&device_array)),
         METH_FASTCALL | METH_KEYWORDS,
         PyDoc_STR("__arrow_c_device_array__($self, /, requested_schema=None, **kwargs)\n--\n\n"
                   "Return a pair of capsules, 'arrow_schema' and 'arrow_device_array', that share the memory. "
                   "What requested_schema asks for is converted if no value changes.")},
        {"__arrow_c_stream__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&stream)),
         METH_FASTCALL | METH_KEYWORDS,
         PyDoc_STR("__arrow_c_stream__($self, /, requested_schema=None)\n--\n\n"
                   "Return an 'arrow_array_stream' capsule of one chunk that shares the memory. "
                   "What requested_schema asks for is converted if no value changes.")},
        {"__arrow_c_device_stream__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&device_stream)),
         METH_FASTCALL | METH_KEYWORDS,
         PyDoc_STR("__arrow_c_device_stream__($self, /, requested_schema=None, **kwargs)\n--\n\n"
                   "Return an 'arrow_device_array_stream' capsule of one chunk that shares the memory. "
                   "What requested_schema asks for is converted if no value changes.")},
        {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&dlpack)),
         METH_FASTCALL | METH_KEYWORDS,
         PyDoc_STR("__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
                   "Export numbers and times without nulls as a read-only DLPack capsule; booleans as a copy.")},
        {"__dlpack_device__", &dlpack_device, METH_NOARGS,
         PyDoc_STR("__dlpack_device__($self, /)\n--\n\nReturn the DLPack device of the data, a pair (type, id).")},
        {"from_arrow", &from_arrow, METH_O,
         PyDoc_STR(
             "from_arrow(x, /)\n--\n\n"
             "Import an object with __arrow_c_array__, __arrow_c_device_array__, __arrow_c_stream__ or "
             "__arrow_c_device_stream__. The memory is shared; several chunks of a stream are concatenated into a "
             "copy.")},
    };
};

}  // namespace detail

/// Adds Arrow's PyCapsule interface (`__arrow_c_schema__`, `__arrow_c_array__`, `__arrow_c_stream__` and the same for
/// devices), a static method `from_arrow(x, /)`, and `__dlpack__` and `__dlpack_device__` to a Python type that holds a
/// column.
///
/// Requires the GIL and the main interpreter; see install_dlpack. Call this function during the initialisation of the
/// module.
///
/// \tparam Unwrap   captureless lambda: `unwrap(PyObject*)` returns the column in an object; see `unwraps`
/// \tparam Wrap     captureless lambda: `wrap(column&&)` returns a new object, or null with a Python error set
/// \tparam BackEnd  stateless back end for imports and copies; the default supports host memory only
/// \param type  mutable heap type
/// \return      true on success; otherwise false with a Python error set, as for install_exports
template <stateless Unwrap, stateless Wrap, class BackEnd = host_back_end>
[[nodiscard]] bool install_arrow(PyTypeObject* type, Unwrap, Wrap, BackEnd = {}) noexcept {
    static_assert(detail::is_stateless_back_end<BackEnd>());
    using methods = detail::column_methods<Unwrap, Wrap, BackEnd>;
    if (!detail::can_install(type, "Arrow")) return false;
    for (auto& method : methods::table) {
        bool const is_static = method.ml_flags == METH_O;  // from_arrow
        reference function{is_static ? PyCFunction_New(&method, nullptr) : nullptr};
        if (is_static && !function) return false;
        auto* const attribute = is_static ? function.release() : PyDescr_NewMethod(type, &method);
        if (!detail::set_attribute(type, method.ml_name, attribute)) return false;
    }
    return true;
}

}  // namespace FERRY_NAMESPACE::python
