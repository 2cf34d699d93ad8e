// ferry: columns out, by Arrow's PyCapsule interface.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/arrow_capsule.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/arrow/device.hpp>
#include <ferry/arrow/to_arrow.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/view.hpp>

#include <utility>

namespace ferry::inline v0::python {
namespace detail {

[[nodiscard]] inline PyObject* pair_of(reference first, reference second) {
    PyObject* const pair = PyTuple_New(2);
    if (pair == nullptr) throw error_is_set{};
    PyTuple_SET_ITEM(pair, 0, first.release());
    PyTuple_SET_ITEM(pair, 1, second.release());
    return pair;
}

/// Reads the arguments of `__arrow_c_array__(requested_schema=None)` and its kin. A request is a wish that a producer
/// may leave unfulfilled, and columns are never cast: it is looked at no further than whether it is one. Other keywords
/// are for later versions of the protocol: None means that nothing is wanted, anything else cannot be had.
inline void parse_arrow_arguments(char const* method, PyObject* const* args, Py_ssize_t positional, PyObject* keywords,
                                  bool is_open) {
    if (positional > 1) {
        PyErr_Format(PyExc_TypeError, "%s() takes one argument, requested_schema", method);
        throw error_is_set{};
    }
    PyObject* requested = positional == 1 ? args[0] : Py_None;
    Py_ssize_t const count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* const name = PyTuple_GET_ITEM(keywords, i);
        PyObject* const value = args[positional + i];
        if (positional == 0 && PyUnicode_CompareWithASCIIString(name, "requested_schema") == 0) {
            requested = value;
        } else if (!is_open || PyUnicode_CompareWithASCIIString(name, "requested_schema") == 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", method, name);
            throw error_is_set{};
        } else if (value != Py_None) {
            PyErr_Format(PyExc_NotImplementedError,
                         "%s() does not know the keyword argument '%U', and only None would do", method, name);
            throw error_is_set{};
        }
    }
    if (requested != Py_None) static_cast<void>(struct_in<ArrowSchema>(requested, "requested_schema"));
}

}  // namespace detail

/// A new capsule "arrow_schema" of a column's type. Needs the GIL. \throws error_is_set;  std::bad_alloc
[[nodiscard]] inline PyObject* arrow_schema_capsule(column_view c) {
    ArrowSchema schema{};
    to_arrow_schema(c, &schema);
    return detail::make_arrow_capsule(detail::owned_struct{schema}).release();
}

/// A new pair of capsules, "arrow_schema" and "arrow_array", that shares the column's memory and keeps it alive.
/// \throws error_is_set;  error  errc::not_accessible: the memory is a device's;  std::bad_alloc
[[nodiscard]] inline PyObject* arrow_array_capsules(column const& c) {
    ArrowArray array{};
    to_arrow(c, &array);
    reference second = detail::make_arrow_capsule(detail::owned_struct{array});
    return detail::pair_of(reference{arrow_schema_capsule(c.view())}, std::move(second));
}

/// A new pair of capsules, "arrow_schema" and "arrow_device_array", wherever the memory is. The data of a column is
/// ready: there is no event. \throws error_is_set;  std::bad_alloc
[[nodiscard]] inline PyObject* arrow_device_array_capsules(column const& c) {
    ArrowDeviceArray array{};
    to_arrow(c, &array);
    reference second = detail::make_arrow_capsule(detail::owned_struct{array});
    return detail::pair_of(reference{arrow_schema_capsule(c.view())}, std::move(second));
}

/// A new capsule "arrow_array_stream" that takes the stream over, whatever happens.
[[nodiscard]] inline PyObject* arrow_stream_capsule(ArrowArrayStream& stream) {
    return detail::make_arrow_capsule(detail::owned_struct{stream}).release();
}

}  // namespace ferry::inline v0::python
