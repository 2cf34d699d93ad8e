// A Python interpreter for a test program that is none, and what tests ask of it.
#pragma once

#include <ferry/python.hpp>

#include <doctest/doctest.h>

#include <string>

namespace support {

/// Starts the interpreter once; it stays. The tests hold the GIL.
inline void start_python() {
    static bool const started = [] {
        Py_InitializeEx(0);
        return true;
    }();
    static_cast<void>(started);
}

/// Takes the Python error that is set: its class must be `type`. Its text.
inline std::string taken_error(PyObject* type) {
    REQUIRE(PyErr_Occurred() != nullptr);
    CHECK(PyErr_GivenExceptionMatches(PyErr_Occurred(), type) != 0);
    PyObject *t = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&t, &value, &trace);
    ferry::python::reference const a{t}, b{value}, c{trace}, text{value != nullptr ? PyObject_Str(value) : nullptr};
    return text ? PyUnicode_AsUTF8(text.get()) : "";
}

/// The value of an expression.
inline ferry::python::reference eval(char const* expression) {
    ferry::python::reference const globals{PyDict_New()};
    ferry::python::reference result{PyRun_String(expression, Py_eval_input, globals.get(), globals.get())};
    REQUIRE(result);
    return result;
}

}  // namespace support
