// ferry: concepts of the functions `unwrap`, which returns the array in a Python object, and `wrap`, which returns a
// Python object for an array.
#pragma once

#include <ferry/python/error.hpp>

#include <ferry/space/back_end.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::python {

/// A function object without state, such as a captureless lambda, that C callbacks can default-construct.
template <class F>
concept stateless = std::is_empty_v<F> && std::default_initializable<F>;

/// Satisfied if `unwrap(PyObject*)` returns a `T*`. For an object of another type, the pointer must be null, without a
/// Python error.
template <class F, class T>
concept unwraps_pointer = requires(F& f, PyObject* o) {
    requires std::is_pointer_v<decltype(f(o))> && std::convertible_to<decltype(f(o)), T*>;
};

/// Satisfied if `unwrap(PyObject*)` returns a `T&`. It must throw for an object of another type.
template <class F, class T>
concept unwraps_reference = requires(F& f, PyObject* o) {
    requires std::is_lvalue_reference_v<decltype(f(o))> && std::convertible_to<decltype(f(o)), T&>;
};

/// Satisfied if `unwrap(PyObject*)` returns a `std::optional<T>`, a `std::shared_ptr<T>` or a similar object by value,
/// which must be empty for an object of another type. The returned object is destroyed at the end of the call, so the
/// array cannot be borrowed (R75).
template <class F, class T>
concept unwraps_value = requires(F& f, PyObject* o) {
    requires !std::is_pointer_v<decltype(f(o))> && !std::is_reference_v<decltype(f(o))>;
    requires requires(decltype(f(o)) held) {
        static_cast<bool>(held);
        { *held } -> std::convertible_to<T&>;
    };
};

/// A function that returns the array in a Python object, in one of the three forms above.
template <class F, class T>
concept unwraps = unwraps_pointer<F, T> || unwraps_reference<F, T> || unwraps_value<F, T>;

/// `wrap(T&&, Context*)` returns a new object, or null with a Python error set. The context is a Python type, as
/// described for from_dlpack_method and install_from_dlpack, or the pointer passed to exchange_api_capsule.
template <class F, class T, class Context>
concept wraps_with_context = requires(F& f, T&& array, Context* context) {
    { f(std::move(array), context) } -> std::convertible_to<PyObject*>;
};

/// A function that returns a new object for an array, or null with a Python error set: `wrap(T&&)` or
/// `wrap(T&&, Context*)`.
template <class F, class T, class Context>
concept wraps = wraps_with_context<F, T, Context> || requires(F& f, T&& array) {
    { f(std::move(array)) } -> std::convertible_to<PyObject*>;
};

namespace detail {

/// The array in a Python object, or a pointer to it, for the duration of a call.
template <class T, class Unwrap>
class array_in {
    using returned = decltype(std::declval<Unwrap&>()(std::declval<PyObject*>()));

   public:
    /// Calls `unwrap`.
    /// \throws error_is_set  TypeError: an object of another type
    explicit array_in(PyObject* object) : held_{get(object)} {
        if (!static_cast<bool>(held_))
            raise(PyExc_TypeError,
                  "the object is not an instance of the type that defines this method or property, or that publishes "
                  "this exchange table");
    }
    [[nodiscard]] T& operator*() { return *held_; }

   private:
    using held = std::conditional_t<std::is_reference_v<returned>, T*, returned>;
    [[nodiscard]] static held get(PyObject* object) {
        if constexpr (std::is_reference_v<returned>) return &static_cast<T&>(Unwrap{}(object));
        else return Unwrap{}(object);
    }
    held held_;
};

/// Calls `wrap`.
template <class Wrap, class T, class Context>
[[nodiscard]] PyObject* wrap_array(T&& array, [[maybe_unused]] Context* context) {
    if constexpr (wraps_with_context<Wrap, T, Context>) return Wrap{}(std::move(array), context);
    else return Wrap{}(std::move(array));
}

template <class BackEnd>
consteval bool is_stateless_back_end() {
    static_assert(back_end<BackEnd> && std::default_initializable<BackEnd>,
                  "ferry: the methods of a type need a stateless back end");
    return back_end<BackEnd>;
}
template <class F>
consteval bool is_stateless() {
    static_assert(stateless<F>,
                  "ferry: unwrap and wrap are called by C functions, to which no state can be passed: pass lambdas "
                  "without captures, and call a function from them");
    return stateless<F>;
}
template <class T, class Unwrap>
consteval bool is_unwrap() {
    if constexpr (!is_stateless<Unwrap>()) return false;
    static_assert(unwraps<Unwrap, T>,
                  "ferry: unwrap(PyObject*) must return a T*, a T&, a std::optional<T> or a smart pointer to T");
    return unwraps<Unwrap, T>;
}
template <class T, class Wrap, class Context>
consteval bool is_wrap() {
    if constexpr (!is_stateless<Wrap>()) return false;
    static_assert(wraps<Wrap, T, Context>,
                  "ferry: wrap must take (T&&) or (T&&, Context*), such as (T&&, PyTypeObject*), and return a "
                  "PyObject*");
    return wraps<Wrap, T, Context>;
}

}  // namespace detail
}  // namespace FERRY_NAMESPACE::python
