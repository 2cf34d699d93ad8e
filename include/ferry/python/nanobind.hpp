// ferry: type casters for nanobind: bound functions take and return the tensors of every library that supports DLPack.
#pragma once

#if !__has_include(<nanobind/nanobind.h>)
#error "nanobind not found: install nanobind, and build the module with nanobind_add_module"
#include <see_the_error_above>
#endif

#include <ferry/python/caster.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::python::detail {

/// Type caster for an argument of type T. An exception other than a refusal of the argument is stored, and thrown when
/// the function is called, because it must not propagate through nanobind's casters for containers.
template <class T, class Options>
struct nanobind_argument {
    using Value = T;
    static constexpr auto Name = nanobind::detail::const_name(signature_of<T>.text);
    template <class As>
    using Cast = nanobind::detail::movable_cast_t<As>;

    [[nodiscard]] bool from_python(nanobind::handle from, std::uint32_t flags,
                                   nanobind::detail::cleanup_list*) noexcept {
        try {
            if constexpr (std::same_as<T, managed_tensor>) {
                if (from.is_none()) return loaded_.value.emplace(), true;  // nb::arg().none(): an empty tensor
            }
            if (from.is_none()) return false;
            // nb::cast calls this function before can_cast.
            if (!owns_tensor<T> && (flags & nanobind::detail::cast_flags::manual) != 0) return false;
            return loaded_.load(from.ptr(), (flags & nanobind::detail::cast_flags::convert) != 0);
        } catch (error_is_set const&) {
            failure_ = std::make_exception_ptr(nanobind::python_error());
        } catch (...) {
            failure_ = std::current_exception();
        }
        return true;
    }

    /// Called by containers and nb::cast, whose results outlive the caster.
    template <class As>
    [[nodiscard]] bool can_cast() const noexcept {
        static_assert(owns_tensor<T>,
                      "ferry: a typed_view is valid only during the call: use ferry::managed_tensor in containers and "
                      "with nb::cast");
        return failure_ == nullptr;
    }
    explicit operator T*() { return &get(); }
    explicit operator T&() { return get(); }
    explicit operator T&&() { return std::move(get()); }

   private:
    [[nodiscard]] T& get() {
        if (failure_ != nullptr) std::rethrow_exception(failure_);
        return *loaded_.value;
    }

    loader<T, Options> loaded_;
    std::exception_ptr failure_;
};

/// Converts a result. Returns null with a Python error set if the export fails.
template <class... Options, class T>
[[nodiscard]] nanobind::handle to_nanobind(T&& value, PyObject* like = nullptr) noexcept {
    try {
        return to_python<Options...>(std::forward<T>(value), like);
    } catch (...) {
        translate_exception();
        return {};
    }
}

/// Type caster for std::optional<T>. Unlike nanobind's caster, it stores the caster of T for the duration of the call.
/// Has hidden visibility, because nanobind's types do.
template <class T>
struct FERRY_HIDDEN nanobind_optional {
    using Value = std::optional<T>;
    using inner = nanobind::detail::make_caster<T>;
    static constexpr auto Name = inner::Name + nanobind::detail::const_name(" | None");
    template <class As>
    using Cast = nanobind::detail::movable_cast_t<As>;

    [[nodiscard]] bool from_python(nanobind::handle from, std::uint32_t flags,
                                   nanobind::detail::cleanup_list* cleanup) noexcept {
        is_none_ = from.is_none();
        return is_none_ || inner_.from_python(from, flags, cleanup);
    }
    template <class As>
    [[nodiscard]] bool can_cast() const noexcept {
        return inner_.template can_cast<T>();
    }
    explicit operator Value*() { return &get(); }
    explicit operator Value&() { return get(); }
    explicit operator Value&&() { return std::move(get()); }

   private:
    [[nodiscard]] Value& get() {
        if (!is_none_ && !value_) value_.emplace(inner_.operator T&&());
        return value_;
    }

    inner inner_;
    Value value_;
    bool is_none_ = true;
};

/// Type caster for arrays, as arguments and results.
template <class T>
struct nanobind_array : nanobind_argument<T, options<>> {
    template <class From>
    [[nodiscard]] static nanobind::handle from_cpp(From&& value, nanobind::rv_policy,
                                                   nanobind::detail::cleanup_list*) noexcept {
        if constexpr (std::is_pointer_v<std::remove_reference_t<From>>) {
            return value != nullptr ? to_nanobind<>(*value) : nanobind::none().release();
        } else {
            return to_nanobind<>(std::forward<From>(value));
        }
    }
};

}  // namespace FERRY_NAMESPACE::python::detail

namespace nanobind::detail {

/// Type caster for an owning tensor, as argument and result.
template <>
struct type_caster<ferry::managed_tensor> : ferry::python::detail::nanobind_array<ferry::managed_tensor> {};

/// Accepts a tensor, and passes a view of it, or of a copy, to the function. The tensor is imported for the call, and
/// released when the call returns or throws.
template <class T, int Rank, ferry::access_from Access, ferry::layout Layout>
struct type_caster<ferry::typed_view<T, Rank, Access, Layout>>
    : ferry::python::detail::nanobind_argument<ferry::typed_view<T, Rank, Access, Layout>,
                                               ferry::python::detail::options<>> {
    template <class From>
    static handle from_cpp(From&&, rv_policy, cleanup_list*) noexcept {
        static_assert(!std::is_same_v<From, From>,
                      "ferry: a typed_view does not own its tensor and cannot be returned: return the array, "
                      "or a managed_tensor");
        return {};
    }
};

/// Accepts an argument with options.
template <class T, class... Options>
struct type_caster<ferry::python::argument<T, Options...>> {
    using Value = ferry::python::argument<T, Options...>;
    using inner = ferry::python::detail::nanobind_argument<T, ferry::python::detail::options<Options...>>;
    static constexpr auto Name = inner::Name;
    template <class As>
    using Cast = movable_cast_t<As>;
    bool from_python(handle from, std::uint32_t flags, cleanup_list* cleanup) noexcept {
        object_ = from.ptr();
        return inner_.from_python(from, flags, cleanup);
    }
    template <class As>
    bool can_cast() const noexcept {
        return inner_.template can_cast<T>();
    }
    explicit operator Value*() { return &get(); }
    explicit operator Value&() { return get(); }
    explicit operator Value&&() { return std::move(get()); }

   private:
    Value& get() {
        if (!value_) value_.emplace(inner_.operator T&&(), object_);
        return *value_;
    }
    inner inner_;
    PyObject* object_ = nullptr;
    std::optional<Value> value_;
};

/// Returns a result with options.
template <class T, class... Options>
struct type_caster<ferry::python::result<T, Options...>> {
    static constexpr auto Name = const_name(ferry::python::detail::signature_of<T>.text);
    static handle from_cpp(ferry::python::result<T, Options...>&& value, rv_policy, cleanup_list*) noexcept {
        return ferry::python::detail::to_nanobind<Options...>(std::move(*value), value.like());
    }
};

/// Accepts None, which becomes an empty std::optional, and the arguments that the type caster of the value type
/// accepts.
template <class T, int Rank, ferry::access_from Access, ferry::layout Layout>
struct type_caster<std::optional<ferry::typed_view<T, Rank, Access, Layout>>>
    : ferry::python::detail::nanobind_optional<ferry::typed_view<T, Rank, Access, Layout>> {};
template <class T, class... Options>
struct type_caster<std::optional<ferry::python::argument<T, Options...>>>
    : ferry::python::detail::nanobind_optional<ferry::python::argument<T, Options...>> {};
template <>
struct type_caster<std::optional<ferry::managed_tensor>>
    : ferry::python::detail::nanobind_optional<ferry::managed_tensor> {
    static handle from_cpp(std::optional<ferry::managed_tensor>&& value, rv_policy policy,
                           cleanup_list* cleanup) noexcept {
        return value ? make_caster<ferry::managed_tensor>::from_cpp(std::move(*value), policy, cleanup)
                     : none().release();
    }
};

/// Accepts and returns an array that ferry::array_traits adapts; see ferry::python::cast_array.
template <ferry::python::cast_array T>
struct type_caster<T> : ferry::python::detail::nanobind_array<T> {};

}  // namespace nanobind::detail

namespace FERRY_NAMESPACE::python {

/// Registers an exception translator: a ferry::error that propagates from a bound function becomes the Python exception
/// in the table of docs/python.md. Call this function during the initialisation of the module.
///
/// \param module  module; its type selects the binding library
inline void report_errors([[maybe_unused]] nanobind::module_ const& module) {
    nanobind::register_exception_translator([](std::exception_ptr const& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (error const&) {
            translate_exception();
        } catch (error_is_set const&) {
            translate_exception();
        }
    });
}

}  // namespace FERRY_NAMESPACE::python
