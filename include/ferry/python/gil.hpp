// ferry: the GIL, given away for a scope.
#pragma once

#include <ferry/python/api.hpp>

namespace ferry::inline v0::python {

/// Lets other Python threads run until the end of the scope, which must hold the GIL at its start and touch no object.
/// When the interpreter goes meanwhile, the thread waits for its end (R66).
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

}  // namespace ferry::inline v0::python
