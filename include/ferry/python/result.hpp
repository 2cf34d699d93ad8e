// ferry: results of bound C++ functions: an object that supports DLPack, or an array of a library that imports it.
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/gil.hpp>
#include <ferry/python/install.hpp>
#include <ferry/python/object.hpp>
#include <ferry/python/options.hpp>

#include <ferry/exchange/to_dlpack.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::python {
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
    [[nodiscard]] T& operator*() noexcept { return value_; }
    [[nodiscard]] T const& operator*() const noexcept { return value_; }

   private:
    T value_;
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

/// A tensor that several exports share, and the stream on which it is ready.
struct shared_tensor {
    std::shared_ptr<managed_tensor const> tensor;
    stream_token ready = already_ready;
};

/// The Python type of results, ferry.Tensor, with the DLPack protocol, `__array__` and attributes. There is one type
/// for each back end and extension module.
template <class BackEnd>
struct FERRY_HIDDEN tensor_object {
    PyObject_HEAD shared_tensor held;

    /// Returns a new object.
    /// \throws error_is_set  the type or the object cannot be created
    [[nodiscard]] static PyObject* make(shared_tensor&& tensor) {
        PyTypeObject* const type = get_type();
        PyObject* const self = PyType_GenericAlloc(type, 0);
        if (self == nullptr) throw error_is_set{};
        ::new (static_cast<void*>(&reinterpret_cast<tensor_object*>(self)->held)) shared_tensor{std::move(tensor)};
        return self;
    }

   private:
    [[nodiscard]] static atomic_pointer<PyTypeObject>& type() noexcept {
        static constinit atomic_pointer<PyTypeObject> cached;  // never freed
        return cached;
    }
    [[nodiscard]] static tensor_view view(PyObject* self) noexcept {
        return reinterpret_cast<tensor_object*>(self)->held.tensor->view();
    }
    static void destroy(PyObject* self) noexcept {
        kept_error const kept;  // the deleter may run Python code (R67)
        PyTypeObject* const type = Py_TYPE(self);
        reinterpret_cast<tensor_object*>(self)->held.~shared_tensor();
        PyObject_Free(self);
        Py_DECREF(type);
    }
    static PyObject* shape(PyObject* self, void*) noexcept {
        auto const& v = view(self);
        reference tuple{PyTuple_New(v.rank())};
        for (int i = 0; tuple && i < v.rank(); ++i) {
            PyObject* const extent = PyLong_FromLongLong(v.extent(i));
            if (extent == nullptr) return nullptr;
            set_item(tuple.get(), i, extent);
        }
        return tuple.release();
    }
    static PyObject* dtype(PyObject* self, void*) noexcept {
        return PyUnicode_FromString((message{} << view(self).dtype()).c_str());
    }
    static PyObject* readonly(PyObject* self, void*) noexcept { return PyBool_FromLong(view(self).is_read_only()); }
    static PyObject* repr(PyObject* self) noexcept {
        auto const& v = view(self);
        message out{"<ferry.Tensor "};
        out << v.dtype() << " (";
        for (int i = 0; i < v.rank(); ++i) out << (i != 0 ? ", " : "") << v.extent(i);
        out << (v.rank() == 1 ? ",) on " : ") on ") << name(v.device().type) << ":" << v.device().id;
        if (v.is_read_only()) out << ", read-only";
        out << ">";
        return PyUnicode_FromString(out.c_str());
    }
    /// `__array__`, which NumPy calls for np.asarray. Shares the memory unless dtype or copy requires a copy.
    static PyObject* array(PyObject* self, PyObject* arguments, PyObject* keywords) noexcept {
        reference const numpy{PyImport_ImportModule("numpy")};
        if (!numpy) return nullptr;
        reference shared{PyObject_CallMethod(numpy.get(), "from_dlpack", "(O)", self)};
        bool const is_default =
            tuple_size(arguments) == 0 && (keywords == nullptr || PyDict_Size(keywords) == 0);
        if (!shared || is_default) return shared.release();
        reference const method{PyObject_GetAttrString(numpy.get(), "array")};
        reference const first{Py_BuildValue("(O)", shared.get())};
        reference const all{first ? PySequence_Concat(first.get(), arguments) : nullptr};
        return method && all ? PyObject_Call(method.get(), all.get(), keywords) : nullptr;
    }

    [[nodiscard]] static PyTypeObject* get_type() {
        if (PyTypeObject* const known = type().get()) [[likely]]
            return known;
        static PyGetSetDef attributes[] = {
            {"shape", &shape, nullptr, PyDoc_STR("The shape, a tuple of integers."), nullptr},
            {"dtype", &dtype, nullptr, PyDoc_STR("The name of the element type, a string."), nullptr},
            {"readonly", &readonly, nullptr, PyDoc_STR("True if the elements must not be written."), nullptr},
            {},
        };
        static PyMethodDef methods[] = {
            {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&array)),
             METH_VARARGS | METH_KEYWORDS,
             PyDoc_STR("__array__(dtype=None, *, copy=None)\n--\n\nReturn the tensor as a NumPy array.")},
            {},
        };
        static PyType_Slot slots[] = {
            {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
            {Py_tp_repr, reinterpret_cast<void*>(&repr)},
            {Py_tp_getset, attributes},
            {Py_tp_methods, methods},
            {Py_tp_doc,
             const_cast<char*>("A tensor returned by a C++ function. Pass it to from_dlpack of any library.")},
            {0, nullptr},
        };
        unsigned flags = Py_TPFLAGS_DEFAULT;
#ifdef Py_TPFLAGS_DISALLOW_INSTANTIATION
        flags |= Py_TPFLAGS_DISALLOW_INSTANTIATION;  // Python code cannot create instances
#endif
        PyType_Spec spec{"ferry.Tensor", sizeof(tensor_object), 0, flags, slots};
        reference made{PyType_FromSpec(&spec)};
        if (!made) throw error_is_set{};
        auto* const created = reinterpret_cast<PyTypeObject*>(made.get());
#ifndef Py_TPFLAGS_DISALLOW_INSTANTIATION
        created->tp_new = nullptr;
#endif
        bool const installed = install_dlpack<shared_tensor>(
            created,
            [](PyObject* o) {
                return Py_TYPE(o) == type().get() ? &reinterpret_cast<tensor_object*>(o)->held : nullptr;
            },
            [](shared_tensor&& tensor) -> PyObject* {
                try {
                    return make(std::move(tensor));
                } catch (...) {
                    translate_exception();
                    return nullptr;
                }
            },
            BackEnd{});
        if (!installed) throw error_is_set{};
        PyTypeObject* const first = type().set_once(created);
        if (first == created) static_cast<void>(made.release());
        return first;
    }
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

/// Returns a tensor as a new ferry.Tensor, or as an array of the library that the options name; None for an empty
/// managed_tensor.
/// \throws error_is_set  the type cannot be created, or the library refuses the tensor
template <class Options>
[[nodiscard]] PyObject* export_result(managed_tensor&& tensor, stream_token ready) {
    if (!tensor) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    auto shared = std::make_shared<managed_tensor const>(std::move(tensor));
    reference object{tensor_object<typename Options::back_end>::make({std::move(shared), ready})};
    if constexpr (requires { Options::module(); }) {
        PyObject* const from_dlpack = importer_of<Options>();
        PyObject* const argument = object.get();
        object = reference{call_python([&] { return PyObject_Vectorcall(from_dlpack, &argument, 1, nullptr); })};
        if (!object) throw error_is_set{};
    }
    return object.release();
}

/// Returns the result of a bound function as a new Python object. An rvalue is moved into the object; an lvalue is
/// shared by array_traits::share, or copied if there is no such function. Shared data in device memory is ready on
/// the stream of array_traits::ready_on, or behind its event; without `ready_on`, it must be ready when the bound
/// function returns. A copy is complete.
/// \throws error_is_set  errors of export_result
/// \throws error         errors of ferry::to_dlpack
template <class Options, class T>
[[nodiscard]] PyObject* to_python(T&& value) {
    using Array = std::remove_cvref_t<T>;
    if constexpr (std::same_as<Array, managed_tensor>) {
        static_assert(!std::is_lvalue_reference_v<T>, "ferry: a managed_tensor has one owner: return it by value");
        return export_result<Options>(std::move(value), already_ready);
    } else {
        typename Options::back_end b{};
        gil_releasing_back_end releasing{b};
        if constexpr (std::is_lvalue_reference_v<T> && !shareable<std::remove_reference_t<T>>) {
            return export_result<Options>(ferry::to_dlpack(value, request{.copy = copy_policy::always}, releasing),
                                          already_ready);
        } else if constexpr (has_ready_on<Array> || has_ready_event<Array>) {
            auto const ready = ferry::detail::ready_stream(value, releasing,
                                                           {"ferry::to_dlpack", detail::in_python});
            request const unordered{.copy = copy_policy::never, .stream = stream_token::no_sync()};  // `ready` orders
            return export_result<Options>(ferry::to_dlpack(std::forward<T>(value), unordered, share_only),
                                          ready.is_none() ? already_ready : ready);
        } else {
            return export_result<Options>(ferry::to_dlpack(std::forward<T>(value)), already_ready);
        }
    }
}

}  // namespace detail
}  // namespace ferry::inline FERRY_ABI_NAMESPACE::python

template <>
struct ferry::array_traits<ferry::python::detail::shared_tensor> {
    using handle = ferry::python::detail::shared_tensor;
    static constexpr bool vector_elements = true, padded_elements = true;
    static tensor_view view(handle const& h) { return h.tensor->view(); }
    static handle share(handle const& h) { return h; }
    static handle adopt(managed_tensor m, stream_token ready) {
        return {std::make_shared<managed_tensor const>(std::move(m)), ready};
    }
    static stream_token ready_on(handle const& h) { return h.ready; }
};
