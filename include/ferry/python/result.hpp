// ferry: results of bound C++ functions: an object that supports DLPack, or an array of a library that imports it.
#pragma once

#include <ferry/python/detail/published.hpp>
#include <ferry/python/detail/tensor_object.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/gil.hpp>
#include <ferry/python/object.hpp>
#include <ferry/python/options.hpp>

#include <ferry/base/error.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// A string literal as a template argument.
template <std::size_t Size>
struct text {
    char characters[Size]{};
    constexpr text(char const (&from)[Size]) noexcept { std::copy_n(from, Size, characters); }
};

}  // namespace detail

/// Option: the result is passed to `from_dlpack` of a Python module, and the function returns the resulting array. The
/// module is imported on the first call.
///
/// \tparam Module  name of the module, a string literal, as in library<"numpy">
template <detail::text Module>
struct library {};

/// The result type of a bound function with options. The returned value converts implicitly to this type.
///
/// \tparam T        managed_tensor, or an array type with array_traits
/// \tparam Options  library<> and through<>; at most one of each
template <class T, class... Options>
class result {
   public:
    /// Stores the result of a function.
    ///
    /// \param value  result; owned by the Python object
    result(T value) : value_(std::move(value)) {}
    /// Stores the result of a function, and the library of the returned array. Requires the GIL.
    ///
    /// \param value  result; owned by the Python object
    /// \param like   array of the library, or a module or class with `from_dlpack`; see to_python. Retained
    result(T value, PyObject* like) : value_(std::move(value)), like_(like) { Py_XINCREF(like); }
    [[nodiscard]] T& operator*() noexcept { return value_; }
    [[nodiscard]] T const& operator*() const noexcept { return value_; }
    /// The second argument of the constructor; null without one.
    [[nodiscard]] PyObject* like() const noexcept { return like_.get(); }

   private:
    T value_;
    reference like_;
};
/// Result type of a function that returns a NumPy array, which shares the memory of the result.
template <class T>
using as_numpy = result<T, library<"numpy">>;
/// Result type of a function that returns a PyTorch tensor, which shares the memory of the result.
template <class T>
using as_torch = result<T, library<"torch">>;
/// Result type of a function that returns a JAX array, which shares the memory of the result.
template <class T>
using as_jax = result<T, library<"jax.dlpack">>;
/// Result type of a function that returns a CuPy array, which shares the memory of the result.
template <class T>
using as_cupy = result<T, library<"cupy">>;

namespace detail {

template <class Rest, text Module>
struct with_option<Rest, library<Module>> : Rest {
    static constexpr char const* module() noexcept { return Module.characters; }
};

/// Returns `from_dlpack` of the module that the options name, a borrowed reference.
/// \throws error_is_set  the module cannot be imported, or has no from_dlpack
template <class Options>
[[nodiscard]] FERRY_HIDDEN PyObject* importer_of() {
    static constinit atomic_pointer<PyObject> cached;  // never freed
    if (PyObject* const known = cached.get()) return known;
    reference const module{PyImport_ImportModule(Options::module())};
    if (!module) throw error_is_set{};
    reference found{PyObject_GetAttrString(module.get(), "from_dlpack")};
    if (!found) throw error_is_set{};
    PyObject* const first = cached.set_once(found.get());
    if (first == found.get()) static_cast<void>(found.release());
    return first;
}

/// Returns `from_dlpack` of an object, of its `__array_namespace__()`, or of the package that defines its class or a
/// base class; of a class, of the package that defines it or a base class. The package has been imported, because the
/// object exists.
/// \throws error_is_set  TypeError: there is no from_dlpack; exceptions that the look-up raises
[[nodiscard]] FERRY_NOINLINE inline reference importer_like(PyObject* like) {
    if (reference found = find_attribute(like, "from_dlpack")) return found;
    bool const is_class = PyType_Check(like) != 0;
    PyTypeObject* const type = is_class ? reinterpret_cast<PyTypeObject*>(like) : Py_TYPE(like);
    if (reference const get_namespace = is_class ? reference{} : find_attribute(like, "__array_namespace__")) {
        reference const library{call_python([&] { return PyObject_CallNoArgs(get_namespace.get()); })};
        if (!library) throw error_is_set{};
        if (reference found = find_attribute(library.get(), "from_dlpack")) return found;
    }
    reference const bases = bases_of(type);
    for (Py_ssize_t i = 0; bases && i < tuple_size(bases.get()); ++i) {
        reference const name = find_attribute(tuple_item(bases.get(), i), "__module__");
        if (!name || PyUnicode_Check(name.get()) == 0) continue;
        Py_ssize_t const dot = PyUnicode_FindChar(name.get(), '.', 0, PY_SSIZE_T_MAX, 1);
        reference const package{PyUnicode_Substring(name.get(), 0, dot >= 0 ? dot : PY_SSIZE_T_MAX)};
        reference const library{package ? PyImport_GetModule(package.get()) : nullptr};
        if (!library && PyErr_Occurred() != nullptr) throw error_is_set{};
        if (!library) continue;
        if (reference found = find_attribute(library.get(), "from_dlpack")) return found;
    }
    inplace_text text{"the library of "};
    text << type_name{type}.text() << " has no from_dlpack: pass a module or class that has it";
    raise(PyExc_TypeError, text.c_str());
}

/// Returns a tensor as a new ferry.Tensor, or as an array of the library that the options or `like` name; None for an
/// empty managed_tensor.
/// \throws error_is_set  the type cannot be created, there is no such library, or the library refuses the tensor
template <class Options>
[[nodiscard]] PyObject* export_result(managed_tensor&& tensor, stream_token ready, PyObject* like) {
    if (!tensor) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    auto shared = std::make_shared<managed_tensor const>(std::move(tensor));
    reference object{tensor_object<typename Options::back_end>::make({std::move(shared), ready})};
    reference const chosen = like != nullptr && like != Py_None ? importer_like(like) : reference{};
    PyObject* from_dlpack = chosen.get();
    if constexpr (requires { Options::module(); })
        if (from_dlpack == nullptr) from_dlpack = importer_of<Options>();
    if (from_dlpack != nullptr) {
        PyObject* const argument = object.get();
        object = reference{call_python([&] { return PyObject_Vectorcall(from_dlpack, &argument, 1, nullptr); })};
        if (!object) throw error_is_set{};
    }
    return object.release();
}

}  // namespace detail

/// Returns the result of a function as a new Python object: a ferry.Tensor, or an array of another library that shares
/// its memory. An rvalue is moved into the object; an lvalue is shared by array_traits::share, or copied if there is no
/// such function. Shared data in device memory is ready on the stream of array_traits::ready_on, or after its event;
/// without `ready_on`, it must be ready when this function is called. A copy is complete. Requires the GIL.
///
/// \tparam Options  library<> and through<>; at most one of each
/// \param value  array, or managed_tensor; None is returned for an empty managed_tensor. An rvalue is released on
///               failure, because a library may already have imported it
/// \param like   array, or class of arrays, whose library has `from_dlpack`, or a module or class that has it.
///               If null or None, the options determine the type of the result
/// \return       new reference
/// \throws error_is_set  TypeError: `like` has no from_dlpack; exceptions of the library
/// \throws error         errors of ferry::to_dlpack
template <class... Options, class T>
[[nodiscard]] PyObject* to_python(T&& value, PyObject* like = nullptr) {
    using namespace detail;
    require_main_interpreter();
    using chosen = options<Options...>;
    using Array = std::remove_cvref_t<T>;
    if constexpr (std::same_as<Array, managed_tensor>) {
        static_assert(!std::is_lvalue_reference_v<T>, "ferry: a managed_tensor has one owner: return it by value");
        return export_result<chosen>(std::move(value), already_ready, like);
    } else {
        typename chosen::back_end b{};
        gil_releasing_back_end releasing{b};
        if constexpr (std::is_lvalue_reference_v<T> && !shareable<std::remove_reference_t<T>>) {
            request const copied{.copy = copy_policy::always};
            return export_result<chosen>(ferry::to_dlpack(value, copied, releasing), already_ready, like);
        } else if constexpr (has_ready_on<Array> || has_ready_event<Array>) {
            auto const ready = ferry::detail::ready_stream(value, releasing, {"ferry::to_dlpack", in_python});
            request const unordered{.copy = copy_policy::never, .stream = stream_token::no_sync()};  // `ready` orders
            return export_result<chosen>(ferry::to_dlpack(std::forward<T>(value), unordered, share_only),
                                         ready.is_none() ? already_ready : ready, like);
        } else {
            return export_result<chosen>(ferry::to_dlpack(std::forward<T>(value)), already_ready, like);
        }
    }
}

}  // namespace FERRY_NAMESPACE::python
