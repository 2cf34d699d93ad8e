// ferry: handling of exceptions; without exceptions, the functions only call their arguments.
#pragma once

#include <ferry/config.hpp>

namespace ferry::inline v0::detail {

/// Calls `f`. When it throws, calls `cleanup` before the exception propagates; an exception of `cleanup` replaces it.
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

/// Calls `f`, and ignores its exceptions.
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

}  // namespace ferry::inline v0::detail
