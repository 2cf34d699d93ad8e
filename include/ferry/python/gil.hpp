// ferry: releases the GIL for a scope.
#pragma once

#include <ferry/python/api.hpp>

namespace FERRY_NAMESPACE::python {

/// Releases the GIL until the end of the scope. The thread must hold the GIL at the start, and must not use Python
/// objects within the scope. If the interpreter is finalised meanwhile, the thread blocks at the end of the scope until
/// the process ends (R66). With CPython before 3.14 and a standard library other than libstdc++, the process is
/// terminated instead.
class without_gil {
   public:
    without_gil() noexcept : state_{PyEval_SaveThread()} {}
    without_gil(without_gil const&) = delete;
    without_gil& operator=(without_gil const&) = delete;
    ~without_gil() {
        detail::call_python([&] { PyEval_RestoreThread(state_); });
    }

   private:
    PyThreadState* state_;
};

}  // namespace FERRY_NAMESPACE::python
