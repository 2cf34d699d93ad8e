// ferry: a value or an error, the result of functions that do not throw (D17).
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/config.hpp>

#include <concepts>
#include <new>
#include <source_location>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE {

/// The result of a `try_` function: a value, or the error that the function without `try_` throws.
///
/// Does not allocate. Move-constructible if T is; move-assignable if the move constructor of T is noexcept. Without
/// exceptions, `value` does not exist: test the result, then use `*` or `->`.
template <class T = void>
class result;

namespace detail {

struct record;
template <class T, class F>
[[nodiscard]] result<T> attempt(char const* api, std::source_location where, F f);

}  // namespace detail

/// The result of a function that returns no value: success or an error.
template <>
class [[nodiscard]] result<void> {
   public:
    using value_type = void;

    /// Constructs a successful result.
    result() noexcept : none_{} {}
    /// Constructs a result that contains an error.
    ///
    /// \param e  error
    result(ferry::error const& e) noexcept : error_{e}, has_value_{false} {}
    result(result const& other) noexcept : none_{} {
        if (!other.has_value_) set(other.error_);
    }
    result& operator=(result const& other) noexcept {
        if (this == &other) return *this;
        if (!has_value_) clear();
        if (!other.has_value_) set(other.error_);
        return *this;
    }
    ~result() {
        if (!has_value_) clear();
    }

    /// Returns whether the operation succeeded.
    [[nodiscard]] bool has_value() const noexcept { return has_value_; }
    /// Returns whether the operation succeeded.
    [[nodiscard]] explicit operator bool() const noexcept { return has_value_; }
    /// Returns the error. The behaviour is undefined if the operation succeeded.
    [[nodiscard]] ferry::error const& error() const noexcept FERRY_LIFETIME_BOUND { return error_; }
#if FERRY_HAS_EXCEPTIONS
    /// Throws the error, if there is one.
    ///
    /// \throws error  the error of the result
    void value() const {
        if (!has_value_) raise();
    }
#endif

   private:
    template <class>
    friend class result;

    FERRY_COLD void clear() noexcept {
        error_.~error();
        has_value_ = true;
    }
    FERRY_COLD void set(ferry::error const& e) noexcept {
        ::new (static_cast<void*>(&error_)) ferry::error{e};
        has_value_ = false;
    }
#if FERRY_HAS_EXCEPTIONS
    [[noreturn]] FERRY_COLD void raise() const { throw error_; }
#endif

    union {
        char none_;
        ferry::error error_;  // initialised only if the operation failed
    };
    bool has_value_ = true;
};

template <class T>
class [[nodiscard]] result {
    static_assert(std::is_object_v<T> && !std::is_array_v<T> && !std::same_as<T, ferry::error>,
                  "ferry: the value type of a result must be an object type other than an array or ferry::error");

   public:
    using value_type = T;

    /// Constructs a successful result.
    ///
    /// \param value  value; copied or moved into the result
    result(T const& value) noexcept(std::is_nothrow_copy_constructible_v<T>)
        requires std::copy_constructible<T>
        : value_(value) {}
    result(T&& value) noexcept(std::is_nothrow_move_constructible_v<T>)
        requires std::move_constructible<T>
        : value_(std::move(value)) {}
    /// Constructs a successful result, with its value in place; T need not be movable.
    ///
    /// \param arguments  arguments for the constructor of T
    template <class... Argument>
    explicit result(std::in_place_t, Argument&&... arguments) : value_(std::forward<Argument>(arguments)...) {}
    /// Constructs a result that contains an error.
    ///
    /// \param e  error
    result(ferry::error const& e) noexcept : outcome_{e}, none_{} {}
    result(result&& other) noexcept(std::is_nothrow_move_constructible_v<T>)
        requires std::move_constructible<T>
        : outcome_{other.outcome_}, none_{} {
        if (outcome_) ::new (static_cast<void*>(&value_)) T(std::move(other.value_));
    }
    result& operator=(result&& other) noexcept
        requires std::is_nothrow_move_constructible_v<T>
    {
        if (this == &other) return *this;
        this->~result();
        return *::new (static_cast<void*>(this)) result{std::move(other)};
    }
    ~result() {
        if (outcome_) value_.~T();
    }

    /// Returns whether there is a value.
    [[nodiscard]] bool has_value() const noexcept { return outcome_.has_value(); }
    /// Returns whether there is a value.
    [[nodiscard]] explicit operator bool() const noexcept { return outcome_.has_value(); }
    /// Returns the error. The behaviour is undefined if there is a value.
    [[nodiscard]] ferry::error const& error() const noexcept FERRY_LIFETIME_BOUND { return outcome_.error(); }

    /// Returns the value. The behaviour is undefined if there is none.
    [[nodiscard]] T& operator*() & noexcept FERRY_LIFETIME_BOUND { return value_; }
    [[nodiscard]] T const& operator*() const& noexcept FERRY_LIFETIME_BOUND { return value_; }
    [[nodiscard]] T&& operator*() && noexcept FERRY_LIFETIME_BOUND { return std::move(value_); }
    /// Returns the address of the value. The behaviour is undefined if there is none.
    [[nodiscard]] T* operator->() noexcept FERRY_LIFETIME_BOUND { return &value_; }
    [[nodiscard]] T const* operator->() const noexcept FERRY_LIFETIME_BOUND { return &value_; }

#if FERRY_HAS_EXCEPTIONS
    /// Returns the value, or throws the error.
    ///
    /// \return  value
    /// \throws error  the error of the result, if it has no value
    [[nodiscard]] T& value() & FERRY_LIFETIME_BOUND { return outcome_.value(), value_; }
    [[nodiscard]] T const& value() const& FERRY_LIFETIME_BOUND { return outcome_.value(), value_; }
    [[nodiscard]] T&& value() && FERRY_LIFETIME_BOUND { return outcome_.value(), std::move(value_); }
#endif

   private:
    template <class U, class F>
    friend result<U> detail::attempt(char const*, std::source_location, F);

    /// Contains the value that `f(to)` returns in place, or the error that it reported to `to`.
    template <class F, std::same_as<detail::record> Record>
    result(F& f, Record& to) : value_(f(to)) {
        if (to.outcome) [[likely]]
            return;
        value_.~T();
        outcome_.set(to.outcome.error());
    }

    result<void> outcome_;
    union {
        char none_;
        T value_;  // initialised only if the operation succeeded
    };
};

namespace detail {

template <class R>
inline constexpr bool is_result = false;
template <class T>
inline constexpr bool is_result<result<T>> = true;

template <class R>
struct result_value {
    using type = R;
};
template <class T>
struct result_value<result<T>> {
    using type = T;
};
/// T for a `result<T>`, otherwise R.
template <class R>
using value_of = typename result_value<R>::type;
/// Satisfied if the result type R of an operation is T, or a result that contains a T.
template <class R, class T>
concept yields = std::same_as<value_of<R>, T>;

}  // namespace detail
}  // namespace FERRY_NAMESPACE
