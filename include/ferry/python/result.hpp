// ferry: what a bound C++ function gives to Python: an object that speaks DLPack, or an array of a
// library that imports it.
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

namespace ferry::inline v0::python {
namespace detail {

/// Text as a template argument.
template <std::size_t Size>
struct text {
    char characters[Size]{};
    constexpr text(char const (&from)[Size]) noexcept { std::copy_n(from, Size, characters); }
};

}  // namespace detail

/// The result is given to `from_dlpack` of this Python module: library<"numpy">.
template <detail::text Module>
struct library {};

/// A result with options, for the signature of a bound function: library<> and through<> count.
/// Made from what is returned.
template <class T, class... Options>
class result {
   public:
    result(T value) : value_(std::move(value)) {}
    [[nodiscard]] T& operator*() noexcept { return value_; }
    [[nodiscard]] T const& operator*() const noexcept { return value_; }

   private:
    T value_;
};
/// Arrives as an array of NumPy, which shares the memory.
template <class T>
using as_numpy = result<T, library<"numpy">>;
/// Arrives as a tensor of PyTorch, which shares the memory.
template <class T>
using as_torch = result<T, library<"torch">>;
/// Arrives as an array of JAX, which shares the memory.
template <class T>
using as_jax = result<T, library<"jax.dlpack">>;
/// Arrives as an array of CuPy, which shares the memory.
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

/// The Python type of results: `__dlpack__` and what belongs to it, and no arithmetic. One type for
/// each back end and module.
template <class BackEnd>
struct FERRY_HIDDEN tensor_object {
    PyObject_HEAD shared_tensor held;

    /// A new object. \throws error_is_set
    [[nodiscard]] static PyObject* make(shared_tensor&& tensor) {
        PyTypeObject* const type = made_type();
        PyObject* const self = type->tp_alloc(type, 0);
        if (self == nullptr) throw error_is_set{};
        ::new (static_cast<void*>(&reinterpret_cast<tensor_object*>(self)->held)) shared_tensor{std::move(tensor)};
        return self;
    }

   private:
    [[nodiscard]] static PyTypeObject*& type() noexcept {
        static PyTypeObject* cached = nullptr;  // written with the GIL held; immortal
        return cached;
    }
    [[nodiscard]] static tensor_view const& view(PyObject* self) noexcept {
        return reinterpret_cast<tensor_object*>(self)->held.tensor->view();
    }
    static void destroy(PyObject* self) noexcept {
        PyTypeObject* const type = Py_TYPE(self);
        reinterpret_cast<tensor_object*>(self)->held.~shared_tensor();
        type->tp_free(self);
        Py_DECREF(type);
    }
    static PyObject* shape(PyObject* self, void*) noexcept {
        auto const& v = view(self);
        reference tuple{PyTuple_New(v.rank())};
        for (int i = 0; tuple && i < v.rank(); ++i) {
            PyObject* const extent = PyLong_FromLongLong(v.extent(i));
            if (extent == nullptr) return nullptr;
            PyTuple_SET_ITEM(tuple.get(), i, extent);
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
    /// NumPy's way of asking: `np.asarray(self)`. Shares unless it is told not to.
    static PyObject* array(PyObject* self, PyObject* arguments, PyObject* keywords) noexcept {
        reference const numpy{PyImport_ImportModule("numpy")};
        if (!numpy) return nullptr;
        reference shared{PyObject_CallMethod(numpy.get(), "from_dlpack", "(O)", self)};
        bool const as_is = PyTuple_GET_SIZE(arguments) == 0 && (keywords == nullptr || PyDict_GET_SIZE(keywords) == 0);
        if (!shared || as_is) return shared.release();
        reference const method{PyObject_GetAttrString(numpy.get(), "array")};
        reference const before{Py_BuildValue("(O)", shared.get())};
        reference const all{before ? PySequence_Concat(before.get(), arguments) : nullptr};
        return method && all ? PyObject_Call(method.get(), all.get(), keywords) : nullptr;
    }

    [[nodiscard]] static PyTypeObject* made_type() {
        if (type() != nullptr) [[likely]]
            return type();
        static PyGetSetDef attributes[] = {
            {"shape", &shape, nullptr, PyDoc_STR("The extents: a tuple."), nullptr},
            {"dtype", &dtype, nullptr, PyDoc_STR("The name of the element type."), nullptr},
            {"readonly", &readonly, nullptr, PyDoc_STR("Whether the elements must not be written."), nullptr},
            {},
        };
        static PyMethodDef methods[] = {
            {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&array)),
             METH_VARARGS | METH_KEYWORDS,
             PyDoc_STR("__array__(dtype=None, *, copy=None)\n--\n\nThe tensor as an array of NumPy.")},
            {},
        };
        static PyType_Slot slots[] = {
            {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
            {Py_tp_repr, reinterpret_cast<void*>(&repr)},
            {Py_tp_getset, attributes},
            {Py_tp_methods, methods},
            {Py_tp_doc,
             const_cast<char*>("A tensor that a C++ function returned: pass it to from_dlpack of any library.")},
            {0, nullptr},
        };
        static PyType_Spec spec{"ferry.Tensor", sizeof(tensor_object), 0, Py_TPFLAGS_DEFAULT, slots};
        reference made{PyType_FromSpec(&spec)};
        if (!made) throw error_is_set{};
        auto* const created = reinterpret_cast<PyTypeObject*>(made.get());
        created->tp_new = nullptr;  // a function makes them, nobody else
        bool const installed = install_dlpack<shared_tensor>(
            created,
            [](PyObject* o) { return Py_TYPE(o) == type() ? &reinterpret_cast<tensor_object*>(o)->held : nullptr; },
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
        type() = reinterpret_cast<PyTypeObject*>(made.release());
        return type();
    }
};

/// `from_dlpack` of the module that the options name, borrowed. \throws error_is_set
template <class Options>
[[nodiscard]] FERRY_HIDDEN PyObject* importer_of() {
    static PyObject* cached = nullptr;  // written with the GIL held; immortal, as its module is
    if (cached == nullptr) {
        reference const module{PyImport_ImportModule(Options::module())};
        if (!module) throw error_is_set{};
        cached = PyObject_GetAttrString(module.get(), "from_dlpack");
        if (cached == nullptr) throw error_is_set{};
    }
    return cached;
}

/// A tensor as the object that the options want. \throws error_is_set
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
        object = reference{call_python([&] { return PyObject_CallOneArg(from_dlpack, object.get()); })};
        if (!object) throw error_is_set{};
    }
    return object.release();
}

/// What a function returns: an rvalue moves into the object, an lvalue is shared by
/// array_traits::share, else copied. A managed_tensor that holds nothing is None. Memory off the
/// host is ready where array_traits::ready_on says, else now.
///
/// \throws error_is_set;  error  as ferry::to_dlpack
template <class Options, class T>
[[nodiscard]] PyObject* to_python(T&& value) {
    using Array = std::remove_cvref_t<T>;
    if constexpr (std::same_as<Array, managed_tensor>) {
        static_assert(!std::is_lvalue_reference_v<T>, "ferry: a managed_tensor has one owner: return it by value");
        return export_result<Options>(std::move(value), already_ready);
    } else {
        auto ready = ferry::detail::ready_on(value);
        if (ready.is_none()) ready = already_ready;
        if constexpr (!std::is_lvalue_reference_v<T> || shareable<std::remove_reference_t<T>>) {
            return export_result<Options>(ferry::to_dlpack(std::forward<T>(value)), ready);
        } else {
            typename Options::back_end b{};
            gil_releasing_back_end patient{b};
            return export_result<Options>(ferry::to_dlpack(value, request{.copy = copy_policy::always}, patient),
                                          already_ready);
        }
    }
}

}  // namespace detail
}  // namespace ferry::inline v0::python

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
