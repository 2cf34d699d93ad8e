// ferry: error reporting that lets `f`, which throws, and `try_f`, which returns a result, share one implementation.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/result.hpp>
#include <ferry/config.hpp>

#include <new>
#include <source_location>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::detail {

/// The record of a call to `try_f`: the name of the public function, the source location of the call, and the outcome,
/// which is a success until an error is reported.
struct record {
    // A constructor: GCC clears an aggregate before it initialises the members, here the text of the error.
    record(char const* f, std::source_location from) noexcept : api{f}, where{from} {}

    char const* api;
    std::source_location where;
    result<> outcome;
};

/// The destination of errors: a record for `try_f`, none for `f`. Without a record, `report` throws.
///
/// Passed by value in two registers. A reference or a third member would require stores on the path without an error.
class reporter {
   public:
#if FERRY_HAS_EXCEPTIONS
    /// For `f`: errors are thrown.
    constexpr reporter(char const* api, std::source_location where) noexcept : api_{api}, where_{where} {}
#endif
    /// For `try_f`: errors are written to `to`.
    constexpr reporter(record& to) noexcept : api_{nullptr}, to_{&to} {}

    /// Reports an error. Returns false, or throws. A record keeps the first error.
#ifdef FERRY_TERSE_ERRORS
    template <class Text>
    [[nodiscard]] friend bool report(reporter r, errc code, Text const&) {
        return report_text(r, code);
    }
#else
    [[nodiscard]] friend bool report(reporter r, errc code, char const* text) { return report_text(r, code, text); }
#endif
    [[nodiscard]] FERRY_COLD friend bool report(reporter r, errc code, inplace_text const& text) {
        return report_text(r, code, text.c_str());
    }
    [[nodiscard]] FERRY_COLD friend bool report_text(reporter r, errc code, char const* text = nullptr) {
#if FERRY_HAS_EXCEPTIONS
        if (r.api_ != nullptr) throw error{code, r.api_, text, r.where_};
#endif
        // The casts prevent a warning of nvcc 13.0 about an unused result.
        if (r.to_->outcome) static_cast<void>(r.to_->outcome = error{code, r.to_->api, text, r.to_->where});
        return false;
    }
    /// Reports an error that an adapter or a back end returned. Returns false, or throws.
    [[nodiscard]] FERRY_COLD friend bool report(reporter r, error const& e) {
#if FERRY_HAS_EXCEPTIONS
        if (r.api_ != nullptr) throw e;
#endif
        if (r.to_->outcome) static_cast<void>(r.to_->outcome = e);
        return false;
    }

   private:
    char const* api_;  // null: `to_` is the active member
    union {
        std::source_location where_;
        record* to_;
    };
};

#if FERRY_HAS_EXCEPTIONS
/// Informs the compiler that a check returned true, in functions `f`, in which a check that fails throws. For example,
/// loops have known bounds after a check of a count. The check must return the constant false, not the result of
/// `report`.
FERRY_ALWAYS_INLINE constexpr void assume_valid(bool checked) noexcept {
    if (!checked) FERRY_UNREACHABLE();
}
#endif

/// Reports a failed allocation. Returns false, or throws.
[[nodiscard]] FERRY_COLD inline bool report_out_of_memory(reporter r) {
    return report(r, errc::out_of_memory, "an allocation failed: free memory");
}

/// Reports the error of a result that an adapter or a back end returned; other values are successes.
template <class R>
[[nodiscard]] FERRY_ALWAYS_INLINE bool check_result([[maybe_unused]] R const& got, [[maybe_unused]] reporter r) {
    if constexpr (is_result<R>) {
        if (!got) return report(r, got.error());
    }
    return true;
}
/// Returns the value of a result, or another value itself. Does not check the result.
template <class R>
[[nodiscard]] FERRY_ALWAYS_INLINE auto& unwrapped(R& got) noexcept {
    if constexpr (is_result<std::remove_const_t<R>>) return *got;
    else return got;
}

/// Implements `try_f`: calls `f(record)` and returns its value or the error that it reported. `f` may also return a
/// result.
///
/// A ferry::error that an adapter or a back end throws, and std::bad_alloc, become the error of the result; other
/// exceptions propagate. For T = void, `f` returns a bool, which is ignored.
template <class T, class F>
[[nodiscard]] result<T> attempt(char const* api, std::source_location where, F f) {
    record to{api, where};
#if FERRY_HAS_EXCEPTIONS
    try {
#endif
        if constexpr (is_result<decltype(f(to))>) {
            return f(to);
        } else if constexpr (std::is_void_v<T>) {
            static_cast<void>(f(to));
            return to.outcome;
        } else {
            return result<T>(f, to);
        }
#if FERRY_HAS_EXCEPTIONS
    } catch (error const& e) {
        static_cast<void>(to.outcome = e);
    } catch (std::bad_alloc const&) {
        static_cast<void>(report_out_of_memory(to));
    }
#endif
    return to.outcome.error();
}

}  // namespace FERRY_NAMESPACE::detail
