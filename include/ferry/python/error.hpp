// ferry: C++ errors become Python errors, of the classes that consumers probe for (R81).
#pragma once

#include <ferry/python/object.hpp>

#include <ferry/base/error.hpp>

#include <exception>
#include <new>
#include <stdexcept>  // an adapter may throw what its library throws

namespace ferry::python {

/// Thrown where a Python error is set already; carries nothing.
struct error_is_set {};

/// Sets a Python error and leaves by exception.
[[noreturn]] FERRY_COLD inline void raise(PyObject* type, char const* text) {
    PyErr_SetString(type, text);
    throw error_is_set{};
}

/// The class of `copy=False` that would need a copy: a BufferError for those who follow `__dlpack__`, a ValueError for those
/// who follow from_dlpack (R54). A new reference, or null with an error set.
[[nodiscard]] FERRY_HIDDEN inline PyObject* copy_needed_class() noexcept {
    static PyObject* cached = nullptr;  // written with the GIL held; immortal, as exception classes of extensions are
    if (cached == nullptr) {
        reference bases{PyTuple_Pack(2, PyExc_BufferError, PyExc_ValueError)};
        if (!bases) return nullptr;
        cached = PyErr_NewExceptionWithDoc("ferry.CopyNeededError", "copy=False was asked for, and only a copy would do.",
                                           bases.get(), nullptr);
    }
    Py_XINCREF(cached);
    return cached;
}

/// Sets the Python error for what is being thrown: by code for ferry's errors, by class for those of an adapter, where
/// std::runtime_error means that the data cannot travel and std::logic_error a bad argument. Call it in a catch block, with the GIL held; never throws.
inline void translate_exception() noexcept {
    try {
        throw;
    } catch (error_is_set const&) {
        if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_SystemError, "ferry: an error was announced and none is set");
    } catch (error const& e) {
        switch (e.code()) {
            case errc::copy_needed: {
                reference type{copy_needed_class()};
                if (type) PyErr_SetString(type.get(), e.what());
                return;
            }
            case errc::stream:
            case errc::argument:
            case errc::consumed:
            case errc::bad_descriptor:
            case errc::bad_column:
            case errc::device_not_found: PyErr_SetString(PyExc_ValueError, e.what()); return;
            case errc::out_of_range: PyErr_SetString(PyExc_IndexError, e.what()); return;
            case errc::out_of_memory: PyErr_SetString(PyExc_MemoryError, e.what()); return;
            case errc::stale_handle:
            case errc::exporter_gone: PyErr_SetString(PyExc_OSError, e.what()); return;
            case errc::permission: PyErr_SetString(PyExc_PermissionError, e.what()); return;
            case errc::driver:
            case errc::context_lost: PyErr_SetString(PyExc_RuntimeError, e.what()); return;
            default: PyErr_SetString(PyExc_BufferError, e.what()); return;  // the data cannot travel
        }
    } catch (std::bad_alloc const&) {
        PyErr_NoMemory();
    } catch (std::out_of_range const& e) {
        PyErr_SetString(PyExc_IndexError, e.what());
    } catch (std::logic_error const& e) {
        PyErr_SetString(PyExc_ValueError, e.what());
    } catch (std::runtime_error const& e) {
        PyErr_SetString(PyExc_BufferError, e.what());  // how an adapter says that the data cannot travel
    } catch (std::exception const& e) {
        PyErr_SetString(PyExc_RuntimeError, e.what());
    } catch (...) {
        PyErr_SetString(PyExc_RuntimeError, "an exception of unknown type");
    }
}

}  // namespace ferry::python
