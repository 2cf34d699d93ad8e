// ferry: translates C++ exceptions into Python errors of the classes that consumers expect (R81).
#pragma once

#include <ferry/python/detail/python_text.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/error.hpp>

#include <cstring>
#include <exception>
#include <new>
#include <source_location>
#include <stdexcept>  // an adapter may throw the exceptions of its library
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// The source location of errors that have no caller in C++. One object: the location of each function would add the
/// name of the function to the program.
FERRY_HIDDEN inline constexpr auto in_python = std::source_location::current();

}  // namespace detail

/// Thrown after a Python error has been set.
struct error_is_set {};

/// Sets a Python error. Requires the GIL.
///
/// \param type  exception class
/// \param text  message, or its first words: the name of a function or an argument
/// \param rest  rest of the message; removed by FERRY_TERSE_ERRORS
/// \throws error_is_set  always
[[noreturn]] FERRY_COLD inline void raise(PyObject* type, char const* text, ferry::detail::sentence rest = "") {
    PyErr_Format(type, "%s%s", text, static_cast<char const*>(rest));
    throw error_is_set{};
}

namespace detail {

/// Requires the main interpreter; see check_interpreter.
inline void require_main_interpreter() {
    if (!check_interpreter()) throw error_is_set{};
}

}  // namespace detail

/// Saves and clears the current Python error, and restores it at the end of the scope. An error set within the scope is
/// discarded. Requires the GIL.
class kept_error {
   public:
    kept_error() noexcept { PyErr_Fetch(&type_, &value_, &trace_); }
    kept_error(kept_error const&) = delete;
    kept_error& operator=(kept_error const&) = delete;
    ~kept_error() { PyErr_Restore(type_, value_, trace_); }

   private:
    PyObject *type_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

namespace detail {

/// Removes the current Python error. Requires the GIL.
/// \return  the exception, with its traceback
[[nodiscard]] FERRY_COLD inline reference take_exception() noexcept {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != nullptr) PyException_SetTraceback(value, trace);
    reference const dropped[] = {reference{type}, reference{trace}};
    return reference{value};
}

}  // namespace detail

/// Replaces the current Python error with a BufferError whose `__cause__` is the replaced error. Requires the GIL.
///
/// \param text  message, or its first words: the name of a function
/// \param rest  rest of the message; removed by FERRY_TERSE_ERRORS
FERRY_COLD inline void replace_error(char const* text, ferry::detail::sentence rest = "") noexcept {
    reference cause = detail::take_exception();
    reference const said{PyUnicode_FromFormat("%s%s", text, static_cast<char const*>(rest))};
    reference const made{said ? PyObject_CallFunctionObjArgs(PyExc_BufferError, said.get(), nullptr) : nullptr};
    if (!made) return;
    PyException_SetCause(made.get(), cause.release());
    PyErr_SetObject(PyExc_BufferError, made.get());
}

namespace detail {

/// The class that copy_needed_class returns. Never released, like all exception classes of extensions.
FERRY_HIDDEN inline constinit atomic_pointer<PyObject> copy_needed;

}  // namespace detail

/// Returns the exception class for a request with copy=False that needs a copy (R54). Unless the module has set another
/// class, the class is derived from BufferError, for `__dlpack__`, and from ValueError, for from_dlpack. Requires the
/// GIL.
///
/// \return  new reference; on failure null, with a Python error set
[[nodiscard]] FERRY_HIDDEN FERRY_COLD inline PyObject* copy_needed_class() noexcept {
    PyObject* known = detail::copy_needed.get();
    if (known == nullptr) {
        if (!detail::check_interpreter()) return nullptr;
        reference bases{PyTuple_Pack(2, PyExc_BufferError, PyExc_ValueError)};
        if (!bases) return nullptr;
        reference made{PyErr_NewExceptionWithDoc(
            "ferry.CopyNeededError", "copy=False was requested, but a copy is needed.", bases.get(), nullptr)};
        if (!made) return nullptr;
        known = detail::copy_needed.set_once(made.get());
        if (known == made.get()) return Py_INCREF(known), made.release();
    }
    Py_INCREF(known);
    return known;
}

/// Sets the exception class that copy_needed_class returns in this extension module. Requires the GIL.
///
/// \param type  exception class, such as PyExc_BufferError; a reference is retained, even after a later call
FERRY_HIDDEN inline void set_copy_needed_class(PyObject* type) noexcept {
    Py_INCREF(type);
    detail::copy_needed.exchange(type);
}

/// Sets a Python error with a message that need not be valid UTF-8: U+FFFD replaces invalid bytes. Requires the GIL.
///
/// \param type  exception class
/// \param text  message
FERRY_COLD inline void set_error(PyObject* type, char const* text) noexcept {
    reference const message{PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace")};
    if (message) PyErr_SetObject(type, message.get());
}

namespace detail {

/// Returns the exception class for an error code other than errc::copy_needed.
/// \return      borrowed reference
[[nodiscard]] FERRY_COLD inline PyObject* class_of(errc code) noexcept {
    switch (code) {
        case errc::stream:
        case errc::argument:
        case errc::consumed:
        case errc::bad_descriptor:
        case errc::bad_column:
        case errc::device_not_found: return PyExc_ValueError;
        case errc::out_of_range: return PyExc_IndexError;
        case errc::out_of_memory: return PyExc_MemoryError;
        case errc::stale_handle:
        case errc::exporter_gone:
        case errc::busy: return PyExc_OSError;
        case errc::permission: return PyExc_PermissionError;
        case errc::driver:
        case errc::context_lost: return PyExc_RuntimeError;
        default: return PyExc_BufferError;  // the data cannot be exported or imported
    }
}

/// The exception class of one C++ exception type, in the list of this extension module.
struct registered_exception {
    bool (*set)(PyObject* type) noexcept;  // if the current exception has the type, sets the error and returns true
    atomic_pointer<PyObject> type;
    registered_exception* next;

    FERRY_HIDDEN static inline constinit atomic_pointer<registered_exception> last;
};

template <class E>
bool set_registered(PyObject* type) noexcept {
    try {
        throw;
    } catch (E const& e) {
        if constexpr (std::is_base_of_v<error, E>) set_error(type, python_text{e}.c_str());
        else set_error(type, e.what());
        return true;
    } catch (...) {
        return false;
    }
}

}  // namespace detail

/// Registers the Python exception class for exceptions of an array library. The methods that ferry installs in this
/// extension module call `translate_exception`, which then sets an error of this class with the text of `what()`. If an
/// exception matches several registered types, the one registered last is used. Registered classes take precedence over
/// the classes that ferry assigns. Does not apply to the allocator of the exchange table, which must not use the Python
/// API (R72). Requires the GIL.
///
/// Register TypeError only for errors that also occur in a call to `__dlpack__` without keywords, because consumers
/// repeat the call with fewer keywords after a TypeError (R52, R58).
///
/// \tparam E    exception type with `what()`, such as a class derived from std::exception
/// \param type  exception class; retained until another class is registered for E or, in a build without the GIL, until
///              the process ends. Registering another class does not change the precedence of E
template <class E>
    requires requires(E const& e, char const*& text) { text = e.what(); }
FERRY_HIDDEN void register_exception(PyObject* type) noexcept {
    using detail::registered_exception;
    static constinit registered_exception entry{&detail::set_registered<E>, {}, nullptr};
    Py_INCREF(type);
    if ([[maybe_unused]] PyObject* const before = entry.type.exchange(type)) {
#if !defined(Py_GIL_DISABLED)  // another thread may be setting an error of the previous class
        Py_DECREF(before);
#endif
        return;
    }
    do {
        entry.next = registered_exception::last.get();
    } while (registered_exception::last.set_if(entry.next, &entry) != &entry);
}

/// Sets a Python error for the current exception. The code of a ferry::error, or the C++ type of any other exception,
/// determines the Python class; see docs/python.md. A std::runtime_error of an adapter becomes a BufferError (the data
/// cannot be exported), a std::out_of_range an IndexError, and any other std::logic_error a ValueError (an argument is
/// invalid). `register_exception` adds classes. For an error_is_set, the Python error is kept. Must be called in a
/// catch block. Requires the GIL.
FERRY_COLD inline void translate_exception() noexcept {
    for (auto const* r = detail::registered_exception::last.get(); r != nullptr; r = r->next)
        if (r->set(r->type.get())) return;
    try {
        throw;
    } catch (error_is_set const&) {
        if (PyErr_Occurred() == nullptr)
            PyErr_SetString(PyExc_SystemError, "ferry: error_is_set was thrown without a Python error");
    } catch (error const& e) {
        reference const copy_needed{e.code() == errc::copy_needed ? copy_needed_class() : nullptr};
        set_error(copy_needed ? copy_needed.get() : detail::class_of(e.code()), detail::python_text{e}.c_str());
    } catch (std::bad_alloc const&) {
        PyErr_NoMemory();
    } catch (std::out_of_range const& e) {
        set_error(PyExc_IndexError, e.what());
    } catch (std::logic_error const& e) {
        set_error(PyExc_ValueError, e.what());
    } catch (std::runtime_error const& e) {
        set_error(PyExc_BufferError, e.what());  // an adapter cannot export the data
    } catch (std::exception const& e) {
        set_error(PyExc_RuntimeError, e.what());
    } catch (...) {
        PyErr_SetString(PyExc_RuntimeError, "an exception of unknown type");
    }
}

/// Calls a function that may throw C++ exceptions and returns its result. Use it in functions that CPython calls
/// (R81). Requires the GIL.
///
/// \param call  function without arguments; returns a new reference, or null with a Python error set
/// \return      the result; null with a Python error set if the function throws (see translate_exception)
template <class F>
[[nodiscard]] PyObject* guarded(F&& call) noexcept {
    try {
        return std::forward<F>(call)();
    } catch (...) {
        translate_exception();
        return nullptr;
    }
}

}  // namespace FERRY_NAMESPACE::python
