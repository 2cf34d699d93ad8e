// ferry: owned references to Python objects.
#pragma once

#include <ferry/python/api.hpp>

#include <utility>

namespace ferry::inline v0::python {

/// A strong reference for code that holds the GIL. Move-only.
class reference {
   public:
    reference() = default;
    /// Takes over a new reference, which may be null with a Python error set.
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

/// A strong reference that may die on any thread, with or without the GIL, during and after the interpreter's end (R65,
/// R66): the owner to put into make_managed when a Python object keeps the memory alive. Once the interpreter is going
/// the object is leaked rather than touched. A Python error in flight survives the release (R67).
class owned_object {
   public:
    /// Adds a reference; the GIL must be held.
    [[nodiscard]] static owned_object share(PyObject* borrowed) noexcept {
        Py_INCREF(borrowed);
        return owned_object{borrowed};
    }
    owned_object(owned_object&& other) noexcept : object_{std::exchange(other.object_, nullptr)} {}
    owned_object& operator=(owned_object&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~owned_object() {
        if (object_ == nullptr || is_finalizing()) return;
        PyGILState_STATE const state = detail::call_python([] { return PyGILState_Ensure(); });
        PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
        PyErr_Fetch(&type, &value, &trace);
        detail::call_python([&] { Py_DECREF(object_); });
        PyErr_Restore(type, value, trace);
        PyGILState_Release(state);
    }

    [[nodiscard]] PyObject* get() const noexcept { return object_; }

   private:
    explicit owned_object(PyObject* object) noexcept : object_{object} {}
    PyObject* object_;
};

}  // namespace ferry::inline v0::python
