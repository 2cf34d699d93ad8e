// ferry: owned references to Python objects.
#pragma once

#include <ferry/python/api.hpp>

#include <utility>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// Acquires the GIL and calls a function that releases an object (R65). Preserves the current Python error (R67). A
/// thread that holds the GIL keeps it: in a sub-interpreter, PyGILState_Ensure would wait for the GIL of this thread.
/// \return         false if the interpreter is being finalised: the function is not called, and the object leaks (R66)
template <class F>
[[nodiscard]] bool with_gil(F&& release) noexcept {
    if (is_finalizing()) return false;
    bool const held = holds_gil();
    PyGILState_STATE const state = held ? PyGILState_LOCKED : call_python([] { return PyGILState_Ensure(); });
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    call_python(std::forward<F>(release));
    PyErr_Restore(type, value, trace);
    if (!held) PyGILState_Release(state);
    return true;
}

}  // namespace detail

/// A strong reference to a Python object. Move-only. Every operation requires the GIL.
class reference {
   public:
    reference() = default;
    /// Takes ownership of a reference.
    ///
    /// \param stolen  new reference, owned by this object; may be null
    explicit reference(PyObject* stolen) noexcept : object_{stolen} {}
    reference(reference&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
    reference& operator=(reference&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~reference() { Py_XDECREF(object_); }

    [[nodiscard]] PyObject* get() const noexcept { return object_; }
    [[nodiscard]] PyObject* release() noexcept { return std::exchange(object_, nullptr); }
    [[nodiscard]] explicit operator bool() const noexcept { return object_ != nullptr; }

   private:
    PyObject* object_ = nullptr;
};

namespace detail {

/// The name of a type, for an error message. The name of a type can change, so that without the GIL it is held.
class type_name {
   public:
#if defined(Py_LIMITED_API) || defined(Py_GIL_DISABLED)
    explicit type_name(PyTypeObject* type) noexcept : name_{PyType_GetName(type)} {}
    [[nodiscard]] char const* text() const noexcept {
        char const* const text = name_ ? PyUnicode_AsUTF8AndSize(name_.get(), nullptr) : nullptr;
        return text != nullptr ? text : "an object";
    }

   private:
    reference name_;
#else
    explicit type_name(PyTypeObject* type) noexcept : text_{type->tp_name} {}
    [[nodiscard]] char const* text() const noexcept { return text_; }

   private:
    char const* text_;
#endif
};

}  // namespace detail

/// A strong reference that may be released on any thread, with or without the GIL. During and after finalisation of the
/// interpreter, the object is leaked instead (R65, R66). Use it as the owner for make_managed when a Python object
/// keeps the memory alive. The release preserves the current Python error (R67).
class owned_object {
   public:
    /// Adds a reference. Requires the GIL.
    ///
    /// \param borrowed  object; must not be null
    /// \return          owner of the new reference
    [[nodiscard]] static owned_object share(PyObject* borrowed) noexcept {
        Py_INCREF(borrowed);
        return owned_object{borrowed};
    }
    /// Takes the reference of another owner.
    ///
    /// \param other  owner; empty afterwards
    owned_object(owned_object&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
    owned_object& operator=(owned_object&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~owned_object() {
        if (object_ != nullptr) static_cast<void>(detail::with_gil([this] { Py_DECREF(object_); }));
    }

    [[nodiscard]] PyObject* get() const noexcept { return object_; }

   private:
    explicit owned_object(PyObject* object) noexcept : object_{object} {}
    PyObject* object_;
};

namespace detail {

/// Takes the current Python error away. The destructor drops it, unless `restore` has set it again. Requires the GIL.
class removed_error {
   public:
    removed_error() noexcept {
        PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
        PyErr_Fetch(&type, &value, &trace);
        type_ = reference{type}, value_ = reference{value}, trace_ = reference{trace};
    }
    void restore() noexcept { PyErr_Restore(type_.release(), value_.release(), trace_.release()); }

   private:
    reference type_, value_, trace_;
};

/// Calls a method without arguments. Requires the GIL.
/// \return        the result; null with a Python error set
[[nodiscard]] FERRY_NOINLINE inline reference call_method_of(PyObject* object, PyObject* name) {
    return reference{call_python([&] { return PyObject_VectorcallMethod(name, &object, 1, nullptr); })};
}

}  // namespace detail
}  // namespace FERRY_NAMESPACE::python
