// ferry: type casters for pybind11: bound functions take and return the tensors of every library that supports DLPack.
#pragma once

#if !__has_include(<pybind11/pybind11.h>)
#error "pybind11 not found: install pybind11, and build the module with pybind11_add_module"
#include <see_the_error_above>
#endif
#if defined(Py_LIMITED_API)
#error "pybind11 does not support the limited API: do not define Py_LIMITED_API, or bind with nanobind (STABLE_ABI)"
#include <see_the_error_above>
#endif

#include <ferry/python/caster.hpp>

#include <pybind11/pybind11.h>

#include <concepts>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace FERRY_NAMESPACE::python::detail {

/// Type caster for an argument of type T.
template <class T, class Options>
struct pybind11_argument {
    static constexpr auto name = pybind11::detail::const_name(signature_of<T>.text);
    template <class As>
    using cast_op_type = pybind11::detail::movable_cast_op_type<As>;

    [[nodiscard]] bool load(pybind11::handle from, bool convert) {
        if (!from || from.is_none()) return false;
        try {
            return loaded_.load(from.ptr(), convert);
        } catch (error_is_set const&) {
            throw pybind11::error_already_set();
        }
    }
    operator T*() { return &*loaded_.value; }
    operator T&() { return *loaded_.value; }
    operator T&&() && { return std::move(*loaded_.value); }

   private:
    loader<T, Options> loaded_;
};

/// Converts a result.
/// \throws pybind11::error_already_set  the export fails
template <class... Options, class T>
[[nodiscard]] pybind11::handle to_pybind11(T&& value, PyObject* like = nullptr) {
    try {
        return to_python<Options...>(std::forward<T>(value), like);
    } catch (...) {
        translate_exception();
        throw pybind11::error_already_set();
    }
}

/// Type caster for std::optional<T>. Unlike pybind11's caster, it stores the caster of T for the duration of the call.
/// Has hidden visibility, because pybind11's types do.
template <class T>
struct FERRY_HIDDEN pybind11_optional {
    using Value = std::optional<T>;
    using inner = pybind11::detail::make_caster<T>;
    static constexpr auto name = inner::name + pybind11::detail::const_name(" | None");
    template <class As>
    using cast_op_type = pybind11::detail::movable_cast_op_type<As>;

    [[nodiscard]] bool load(pybind11::handle from, bool convert) {
        value_.reset();
        if (!from || from.is_none()) return static_cast<bool>(from);
        if (!inner_.load(from, convert)) return false;
        value_.emplace(std::move(inner_.operator T&()));
        return true;
    }
    operator Value*() { return &value_; }
    operator Value&() { return value_; }
    operator Value&&() && { return std::move(value_); }

   private:
    inner inner_;
    Value value_;
};

/// Type caster for arrays, as arguments and results.
template <class T>
struct pybind11_array : pybind11_argument<T, options<>> {
    template <class From>
    [[nodiscard]] static pybind11::handle cast(From&& value, pybind11::return_value_policy, pybind11::handle) {
        if constexpr (std::is_pointer_v<std::remove_reference_t<From>>) {
            return value != nullptr ? to_pybind11<>(*value) : pybind11::none().release();
        } else {
            return to_pybind11<>(std::forward<From>(value));
        }
    }
};

}  // namespace FERRY_NAMESPACE::python::detail

namespace pybind11::detail {

/// Type caster for an owning tensor, as argument and result.
template <>
struct type_caster<ferry::managed_tensor> : ferry::python::detail::pybind11_array<ferry::managed_tensor> {};

/// Accepts a tensor, and passes a view of it, or of a copy, to the function. The tensor is imported for the call, and
/// released when the call returns or throws.
template <class T, int Rank, ferry::access_from Access, ferry::layout Layout>
struct type_caster<ferry::typed_view<T, Rank, Access, Layout>>
    : ferry::python::detail::pybind11_argument<ferry::typed_view<T, Rank, Access, Layout>,
                                               ferry::python::detail::options<>> {
    template <class From>
    static handle cast(From&&, return_value_policy, handle) {
        static_assert(!std::is_same_v<From, From>,
                      "ferry: a typed_view does not own its tensor and cannot be returned: return the array, "
                      "or a managed_tensor");
        return {};
    }
};

/// Called by pybind11::cast, whose result would outlive the caster.
template <class T, int Rank, ferry::access_from Access, ferry::layout Layout>
type_caster<ferry::typed_view<T, Rank, Access, Layout>>& load_type(
    type_caster<ferry::typed_view<T, Rank, Access, Layout>>& caster, handle const&) {
    static_assert(!std::is_same_v<T, T>,
                  "ferry: a typed_view is valid only during the call: use ferry::managed_tensor in containers and with "
                  "pybind11::cast");
    return caster;
}

/// Rejects a vector of views, which would outlive their tensors.
template <class T, int Rank, ferry::access_from Access, ferry::layout Layout, class Allocator>
struct type_caster<std::vector<ferry::typed_view<T, Rank, Access, Layout>, Allocator>> {
    static_assert(!std::is_same_v<T, T>,
                  "ferry: a typed_view is valid only during the call: use ferry::managed_tensor in containers and with "
                  "pybind11::cast");
};

/// Accepts an argument with options.
template <class T, class... Options>
struct type_caster<ferry::python::argument<T, Options...>> {
    using Value = ferry::python::argument<T, Options...>;
    using inner = ferry::python::detail::pybind11_argument<T, ferry::python::detail::options<Options...>>;
    static constexpr auto name = inner::name;
    template <class As>
    using cast_op_type = movable_cast_op_type<As>;
    bool load(handle from, bool convert) {
        if (!inner_.load(from, convert)) return false;
        value_.emplace(std::move(inner_.operator T&()), from.ptr());
        return true;
    }
    operator Value*() { return &*value_; }
    operator Value&() { return *value_; }
    operator Value&&() && { return std::move(*value_); }

   private:
    inner inner_;
    std::optional<Value> value_;
};

/// Returns a result with options.
template <class T, class... Options>
struct type_caster<ferry::python::result<T, Options...>> {
    static constexpr auto name = const_name(ferry::python::detail::signature_of<T>.text);
    static handle cast(ferry::python::result<T, Options...>&& value, return_value_policy, handle) {
        return ferry::python::detail::to_pybind11<Options...>(std::move(*value), value.like());
    }
};

/// Accepts None, which becomes an empty std::optional, and the arguments that the type caster of the value type
/// accepts.
template <class T, int Rank, ferry::access_from Access, ferry::layout Layout>
struct type_caster<std::optional<ferry::typed_view<T, Rank, Access, Layout>>>
    : ferry::python::detail::pybind11_optional<ferry::typed_view<T, Rank, Access, Layout>> {};
template <class T, class... Options>
struct type_caster<std::optional<ferry::python::argument<T, Options...>>>
    : ferry::python::detail::pybind11_optional<ferry::python::argument<T, Options...>> {};
template <>
struct type_caster<std::optional<ferry::managed_tensor>>
    : ferry::python::detail::pybind11_optional<ferry::managed_tensor> {
    static handle cast(std::optional<ferry::managed_tensor>&& value, return_value_policy policy, handle parent) {
        return value ? make_caster<ferry::managed_tensor>::cast(std::move(*value), policy, parent) : none().release();
    }
};

/// Accepts and returns an array that ferry::array_traits adapts; see ferry::python::cast_array.
template <ferry::python::cast_array T>
struct type_caster<T> : ferry::python::detail::pybind11_array<T> {};

}  // namespace pybind11::detail

namespace FERRY_NAMESPACE::python {

/// Registers an exception translator: a ferry::error that propagates from a bound function becomes the Python exception
/// in the table of docs/python.md. Call this function during the initialisation of the module.
///
/// \param module  module; its type selects the binding library
inline void report_errors([[maybe_unused]] pybind11::module_ const& module) {
    pybind11::register_local_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown) std::rethrow_exception(thrown);
        } catch (error const&) {
            translate_exception();
        } catch (error_is_set const&) {
            translate_exception();
        }
    });
}

}  // namespace FERRY_NAMESPACE::python
