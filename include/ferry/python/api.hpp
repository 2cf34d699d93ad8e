// ferry: the only header that includes the headers of CPython. Include it, or another header of this folder, before the
// headers of the standard library.
#pragma once

#if !defined(__LP64__) && !defined(_WIN64)
#error "ferry/python needs a 64-bit Unix or Windows: exchange tensors in C++ with ferry/ferry.hpp"
#include <see_the_error_above>
#endif
#if !__has_include(<Python.h>)
#error "Python.h not found: install the headers of CPython, and with CMake link ferry::python (find_package(ferry COMPONENTS python))"
#include <see_the_error_above>
#endif
#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/error.hpp>
#include <ferry/config.hpp>

#if !defined(_WIN32)
#include <cxxabi.h>
#include <unistd.h>
#endif

#if defined(Py_GIL_DISABLED)
#include <atomic>
#endif
#include <utility>

#if defined(PYPY_VERSION)
#error "ferry/python needs CPython, whose internals PyPy does not have: exchange tensors in C++ with ferry/ferry.hpp"
#include <see_the_error_above>
#endif
#if PY_VERSION_HEX < 0x03090000
#error "ferry needs CPython 3.9 or later"
#endif
#if defined(Py_LIMITED_API) && Py_LIMITED_API + 0 < 0x030C0000
#error "ferry needs the limited API of CPython 3.12 or later, which has vectorcalls: define Py_LIMITED_API as 0x030C0000"
#include <see_the_error_above>
#endif

// As FERRY_INLINE, for the engines of this folder. With FERRY_SEPARATE_COMPILATION, one translation unit of each
// extension module includes <ferry/python/src.hpp>, because modules do not share what they cache.
#if !defined(FERRY_SEPARATE_COMPILATION)
#define FERRY_PYTHON_INLINE inline
#elif FERRY_HAS_GNU && !defined(_WIN32)
#define FERRY_PYTHON_INLINE __attribute__((visibility("hidden")))
#else
#define FERRY_PYTHON_INLINE
#endif

namespace FERRY_NAMESPACE::python {

/// Returns whether the interpreter is not initialised or is being finalised. In both cases, Python objects must not be
/// used (R66).
[[nodiscard]] inline bool is_finalizing() noexcept {
#if defined(Py_LIMITED_API) && Py_LIMITED_API + 0 < 0x030D0000
    return Py_IsInitialized() == 0;  // false as soon as the finalisation stops other threads
#elif PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
    return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

namespace detail {

/// Calls a function that may release the GIL. If a thread tries to acquire the GIL during finalisation, CPython before
/// 3.14 ends the thread by unwinding its stack, which would run destructors without the GIL and terminate the process
/// at the first noexcept function. With libstdc++, the thread blocks here until the process ends (R66); with other
/// standard libraries, the unwinding is not stopped.
template <class F>
decltype(auto) call_python(F&& call) {
#if defined(__GLIBCXX__) && !defined(_WIN32)
    try {
        return std::forward<F>(call)();
    } catch (::abi::__forced_unwind&) {
        for (;;) ::pause();
    }
#else
    return std::forward<F>(call)();
#endif
}

/// Returns whether the calling thread holds the GIL, of any interpreter. PyGILState_Check returns true on every thread
/// once a sub-interpreter has existed.
[[nodiscard]] inline bool holds_gil() noexcept {
#if defined(Py_LIMITED_API)
    return PyThreadState_GetDict() != nullptr;
#elif PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked() != nullptr;
#else
    return _PyThreadState_UncheckedGet() != nullptr;
#endif
}

/// Returns whether the current interpreter is the main one. Requires the GIL.
[[nodiscard]] inline bool is_main_interpreter() noexcept {
    return PyInterpreterState_GetID(PyInterpreterState_Get()) == 0;
}
inline constexpr ferry::detail::sentence in_sub_interpreter =
    "ferry does not support sub-interpreters: import the module in the main interpreter";
/// Refuses sub-interpreters: they would share cached names, types and functions with the main one, and a deleter that
/// acquires the GIL would wait for its own thread. Requires the GIL.
/// \return  false with an ImportError set
[[nodiscard]] inline bool check_interpreter() noexcept {
    if (is_main_interpreter()) return true;
    PyErr_SetString(PyExc_ImportError, in_sub_interpreter);
    return false;
}

/// The size of a tuple, and its items, borrowed; `set_item` steals the item of a new tuple. `size_of`: of a tuple or a
/// list. Without calls, and without checks, unless the limited API requires them.
#if defined(Py_LIMITED_API)
[[nodiscard]] inline Py_ssize_t tuple_size(PyObject* tuple) noexcept { return PyTuple_Size(tuple); }
[[nodiscard]] inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t i) noexcept { return PyTuple_GetItem(tuple, i); }
inline void set_item(PyObject* tuple, Py_ssize_t i, PyObject* stolen) noexcept { PyTuple_SetItem(tuple, i, stolen); }
[[nodiscard]] inline Py_ssize_t size_of(PyObject* items) noexcept {
    return PyTuple_Check(items) != 0 ? PyTuple_Size(items) : PyList_Size(items);
}
#else
[[nodiscard]] inline Py_ssize_t tuple_size(PyObject* tuple) noexcept { return PyTuple_GET_SIZE(tuple); }
[[nodiscard]] inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t i) noexcept { return PyTuple_GET_ITEM(tuple, i); }
inline void set_item(PyObject* tuple, Py_ssize_t i, PyObject* stolen) noexcept { PyTuple_SET_ITEM(tuple, i, stolen); }
[[nodiscard]] inline Py_ssize_t size_of(PyObject* items) noexcept { return PySequence_Fast_GET_SIZE(items); }
#endif

/// Returns an item of a tuple or list as a new reference. In a build without the GIL, null, without a Python error, if
/// another thread has shortened the list.
[[nodiscard]] inline PyObject* item_of(PyObject* items, Py_ssize_t i) noexcept {
#if defined(Py_GIL_DISABLED)
    if (PyList_Check(items) != 0) {
        PyObject* const item = PyList_GetItemRef(items, i);
        if (item == nullptr) PyErr_Clear();
        return item;
    }
#endif
#if defined(Py_LIMITED_API)
    PyObject* const item = PyTuple_Check(items) != 0 ? PyTuple_GetItem(items, i) : PyList_GetItem(items, i);
#else
    PyObject* const item = PySequence_Fast_GET_ITEM(items, i);
#endif
    Py_INCREF(item);
    return item;
}

/// A pointer that several threads set and read without a lock: atomic in a build without the GIL, plain in others.
template <class T>
class atomic_pointer {
   public:
    [[nodiscard]] T* get() const noexcept {
#if defined(Py_GIL_DISABLED)
        return pointer_.load(std::memory_order_acquire);
#else
        return pointer_;
#endif
    }
    /// Sets the pointer and returns the previous one.
    T* exchange(T* other) noexcept {
#if defined(Py_GIL_DISABLED)
        return pointer_.exchange(other, std::memory_order_acq_rel);
#else
        return std::exchange(pointer_, other);
#endif
    }
    /// Sets the pointer if it is null, and returns what it is then.
    T* set_once(T* first) noexcept { return set_if(nullptr, first); }
    /// Sets the pointer if it is `expected`, and returns what it is then.
    T* set_if(T* expected, T* other) noexcept {
#if defined(Py_GIL_DISABLED)
        bool const is_set = pointer_.compare_exchange_strong(expected, other, std::memory_order_acq_rel,
                                                             std::memory_order_acquire);
        return is_set ? other : expected;
#else
        if (pointer_ == expected) pointer_ = other;
        return pointer_;
#endif
    }

   private:
#if defined(Py_GIL_DISABLED)
    std::atomic<T*> pointer_ = nullptr;
#else
    T* pointer_ = nullptr;
#endif
};

/// A critical section on one or two objects until the end of the scope: other threads wait at the beginning of theirs.
/// CPython suspends it whenever the thread blocks, as it does with the GIL. Does nothing in builds with the GIL.
class [[nodiscard]] critical_section {
   public:
#if defined(Py_GIL_DISABLED)
    explicit critical_section(PyObject* one) noexcept : critical_section{one, one} {}
    critical_section(PyObject* one, PyObject* two) noexcept { PyCriticalSection2_Begin(&section_, one, two); }
    ~critical_section() { PyCriticalSection2_End(&section_); }
#else
    explicit critical_section(PyObject*) noexcept {}
    critical_section(PyObject*, PyObject*) noexcept {}
#endif
    critical_section(critical_section const&) = delete;
    critical_section& operator=(critical_section const&) = delete;

   private:
#if defined(Py_GIL_DISABLED)
    PyCriticalSection2 section_;
#endif
};

}  // namespace detail
}  // namespace FERRY_NAMESPACE::python
