// ferry: reports of errors: one implementation of a function `f`, which throws, and of `try_f`, which returns a result.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/result.hpp>
#include <ferry/config.hpp>

#include <concepts>
#include <cstddef>
#include <new>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry::inline v0::detail {

/// The name of a public function, the source location of its call, and the destination of its error: the result of
/// `try_f`, or for `f` none, in which case `report` throws.
///
/// Passed by value: a reference to it would require its members in memory on the path without an error.
struct reporter {
    char const* api;
    std::source_location where;
    result<void>* out;

#if FERRY_HAS_EXCEPTIONS
    /// For `f`: errors are thrown.
    constexpr reporter(char const* name, std::source_location location) noexcept
        : api{name}, where{location}, out{nullptr} {}
#endif
    /// For `try_f`: errors are written to `failure`.
    constexpr reporter(char const* name, std::source_location location, result<void>& failure) noexcept
        : api{name}, where{location}, out{&failure} {}
};

/// Reports an error that an adapter or a back end returned. Returns false, or throws.
[[nodiscard]] FERRY_COLD inline bool report(reporter r, error const& e) {
#if FERRY_HAS_EXCEPTIONS
    if (r.out == nullptr) throw e;
#endif
    *r.out = e;
    return false;
}

/// Reports an error. Returns false, or throws.
[[nodiscard]] FERRY_COLD inline bool report(reporter r, errc code, message const& text) {
    return report(r, error{code, r.api, text, r.where});
}

/// Reports a failed allocation. Returns false, or throws.
[[nodiscard]] FERRY_COLD inline bool report_out_of_memory(reporter r) {
    return report(r, errc::out_of_memory, "an allocation failed: free memory, or pass another memory space");
}

/// Allocates host memory. Without exceptions, returns null on failure.
[[nodiscard]] inline void* allocate_bytes(std::size_t bytes) {
#if FERRY_HAS_EXCEPTIONS
    return ::operator new(bytes);
#else
    return ::operator new(bytes, std::nothrow);
#endif
}
[[nodiscard]] inline void* allocate_bytes(std::size_t bytes, std::align_val_t alignment) {
#if FERRY_HAS_EXCEPTIONS
    return ::operator new(bytes, alignment);
#else
    return ::operator new(bytes, alignment, std::nothrow);
#endif
}

/// Implements `try_f`: calls `f(reporter)`, and returns its value or the error that it reported.
///
/// A ferry::error that an adapter or a back end throws, and std::bad_alloc, become the error of the result; other
/// exceptions propagate. For T = void, `f` returns a bool, which is ignored.
template <class T, class F>
[[nodiscard]] result<T> attempt(char const* api, std::source_location where, F f) {
    result<void> failure;
#if FERRY_HAS_EXCEPTIONS
    try {
#endif
        if constexpr (std::is_void_v<T>) {
            static_cast<void>(f(reporter{api, where, failure}));
            return failure;
        } else {
            T value = f(reporter{api, where, failure});
            if (failure) return result<T>{std::move(value)};
        }
#if FERRY_HAS_EXCEPTIONS
    } catch (error const& e) {
        failure = e;
    } catch (std::bad_alloc const&) {
        static_cast<void>(report_out_of_memory({api, where, failure}));
    }
#endif
    return failure.error();
}

}  // namespace ferry::inline v0::detail
