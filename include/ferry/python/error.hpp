// ferry: C++ errors become Python errors, of the classes that consumers probe for (R81).
#pragma once

#include <ferry/python/object.hpp>

#include <ferry/base/error.hpp>

#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>  // an adapter may throw what its library throws

namespace ferry::inline v0::python {

/// Thrown where a Python error is set already; carries nothing.
struct error_is_set {};

/// Sets a Python error and leaves by exception.
[[noreturn]] FERRY_COLD inline void raise(PyObject* type, char const* text) {
    PyErr_SetString(type, text);
    throw error_is_set{};
}

/// Sets the Python error aside for a scope; an error that is set in between is lost.
class kept_error {
   public:
    kept_error() noexcept { PyErr_Fetch(&type_, &value_, &trace_); }
    kept_error(kept_error const&) = delete;
    kept_error& operator=(kept_error const&) = delete;
    ~kept_error() { PyErr_Restore(type_, value_, trace_); }

   private:
    PyObject *type_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

/// Replaces the Python error that is set by a BufferError, of which it is the cause.
inline void replace_error(char const* text) noexcept {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != nullptr) PyException_SetTraceback(value, trace);
    reference const dropped[] = {reference{type}, reference{trace}};
    reference cause{value};
    reference const made{PyObject_CallFunction(PyExc_BufferError, "s", text)};
    if (!made) return;
    PyException_SetCause(made.get(), cause.release());
    PyErr_SetObject(PyExc_BufferError, made.get());
}

/// The class of `copy=False` that would need a copy: a BufferError for those who follow `__dlpack__`, a ValueError for
/// those who follow from_dlpack (R54). A new reference, or null with an error set.
[[nodiscard]] FERRY_HIDDEN inline PyObject* copy_needed_class() noexcept {
    static PyObject* cached = nullptr;  // written with the GIL held; immortal, as exception classes of extensions are
    if (cached == nullptr) {
        reference bases{PyTuple_Pack(2, PyExc_BufferError, PyExc_ValueError)};
        if (!bases) return nullptr;
        cached = PyErr_NewExceptionWithDoc("ferry.CopyNeededError",
                                           "copy=False was asked for, and only a copy would do.", bases.get(), nullptr);
    }
    Py_XINCREF(cached);
    return cached;
}

/// Sets a Python error whose text comes from anywhere, and may be cut within a character: what is no UTF-8 is shown as
/// U+FFFD.
inline void set_error(PyObject* type, char const* text) noexcept {
    reference const message{PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace")};
    if (message) PyErr_SetObject(type, message.get());
}

/// Sets the Python error for what is being thrown: by code for ferry's errors, by class for those of an adapter, where
/// std::runtime_error means that the data cannot travel and std::logic_error a bad argument. Call it in a catch block,
/// with the GIL held; never throws.
inline void translate_exception() noexcept {
    try {
        throw;
    } catch (error_is_set const&) {
        if (PyErr_Occurred() == nullptr)
            PyErr_SetString(PyExc_SystemError, "ferry: an error was announced and none is set");
    } catch (error const& e) {
        switch (e.code()) {
            case errc::no_backend:
                PyErr_Format(PyExc_BufferError,
                             "%s; from Python: pass device='cpu', or copy the data to the CPU with the library that "
                             "made it",
                             e.what());
                return;
            case errc::copy_needed: {
                reference type{copy_needed_class()};
                if (type) set_error(type.get(), e.what());
                return;
            }
            case errc::stream:
            case errc::argument:
            case errc::consumed:
            case errc::bad_descriptor:
            case errc::bad_column:
            case errc::device_not_found: set_error(PyExc_ValueError, e.what()); return;
            case errc::out_of_range: set_error(PyExc_IndexError, e.what()); return;
            case errc::out_of_memory: set_error(PyExc_MemoryError, e.what()); return;
            case errc::stale_handle:
            case errc::exporter_gone: set_error(PyExc_OSError, e.what()); return;
            case errc::permission: set_error(PyExc_PermissionError, e.what()); return;
            case errc::driver:
            case errc::context_lost: set_error(PyExc_RuntimeError, e.what()); return;
            default: set_error(PyExc_BufferError, e.what()); return;  // the data cannot travel
        }
    } catch (std::bad_alloc const&) {
        PyErr_NoMemory();
    } catch (std::out_of_range const& e) {
        set_error(PyExc_IndexError, e.what());
    } catch (std::logic_error const& e) {
        set_error(PyExc_ValueError, e.what());
    } catch (std::runtime_error const& e) {
        set_error(PyExc_BufferError, e.what());  // how an adapter says that the data cannot travel
    } catch (std::exception const& e) {
        set_error(PyExc_RuntimeError, e.what());
    } catch (...) {
        PyErr_SetString(PyExc_RuntimeError, "an exception of unknown type");
    }
}

}  // namespace ferry::inline v0::python
