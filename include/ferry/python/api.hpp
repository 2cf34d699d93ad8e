// ferry: the one includer of CPython's headers. Include it, or any header of this folder, before the standard
// library's.
#pragma once

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <ferry/config.hpp>

#include <cxxabi.h>
#include <unistd.h>

#include <utility>

#if PY_VERSION_HEX < 0x03090000
#error "ferry needs CPython 3.9 or later"
#endif
// Free-threaded builds are refused: nothing here has been proven there.
#if defined(Py_GIL_DISABLED)
#error "ferry does not support free-threaded builds of CPython: build against the default build of the interpreter"
#endif

namespace ferry::inline v0::python {

/// Whether the interpreter is gone, or going: then no object may be touched any more (R66).
[[nodiscard]] inline bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
    return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

namespace detail {

/// Calls what may give the GIL away. CPython up to 3.13 ends threads that want it back while the interpreter goes by
/// unwinding their stacks, through code that then holds no GIL and must not throw: such a thread waits for the end here
/// instead (R66).
template <class F>
decltype(auto) call_python(F&& call) {
#if defined(__GLIBCXX__)
    try {
        return std::forward<F>(call)();
    } catch (::abi::__forced_unwind&) {
        for (;;) ::pause();
    }
#else
    return std::forward<F>(call)();
#endif
}

}  // namespace detail
}  // namespace ferry::inline v0::python
