// ferry: handling of exceptions. With exceptions disabled, the functions only call their first argument.
#pragma once

#include <ferry/config.hpp>

namespace FERRY_NAMESPACE::detail {

/// Calls `f`. If it throws, calls `cleanup` before the exception propagates; an exception from `cleanup` replaces it.
template <class F, class Cleanup>
FERRY_ALWAYS_INLINE decltype(auto) on_exception(F f, [[maybe_unused]] Cleanup cleanup) {
#if FERRY_HAS_EXCEPTIONS
    try {
        return f();
    } catch (...) {
        cleanup();
        throw;
    }
#else
    return f();
#endif
}

/// Calls `f` and ignores its exceptions.
template <class F>
FERRY_ALWAYS_INLINE void ignore_exceptions(F f) noexcept {
#if FERRY_HAS_EXCEPTIONS
    try {
        f();
    } catch (...) {
    }
#else
    f();
#endif
}

}  // namespace FERRY_NAMESPACE::detail
