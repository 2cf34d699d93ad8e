// ferry: the Python type of the results of bound C++ functions.
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/install.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/array_traits.hpp>
#include <ferry/tensor/managed.hpp>

#include <memory>
#include <new>
#include <utility>

namespace FERRY_NAMESPACE::python::detail {

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
        return PyUnicode_FromString((inplace_text{} << view(self).dtype()).c_str());
    }
    static PyObject* readonly(PyObject* self, void*) noexcept { return PyBool_FromLong(!view(self).is_writable()); }
    static PyObject* repr(PyObject* self) noexcept {
        auto const& v = view(self);
        inplace_text out{"<ferry.Tensor "};
        out << v.dtype() << " (";
        for (int i = 0; i < v.rank(); ++i) out << (i != 0 ? ", " : "") << v.extent(i);
        out << (v.rank() == 1 ? ",) on " : ") on ") << name(v.device().type) << ":" << v.device().id;
        if (!v.is_writable()) out << ", read-only";
        out << ">";
        return PyUnicode_FromString(out.c_str());
    }
    /// `__array__`, which NumPy calls for np.asarray. Shares the memory unless dtype or copy requires a copy.
    static PyObject* array(PyObject* self, PyObject* arguments, PyObject* keywords) noexcept {
        reference const numpy{PyImport_ImportModule("numpy")};
        if (!numpy) return nullptr;
        reference shared{PyObject_CallMethod(numpy.get(), "from_dlpack", "(O)", self)};
        bool const is_default = tuple_size(arguments) == 0 && (keywords == nullptr || PyDict_Size(keywords) == 0);
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

}  // namespace FERRY_NAMESPACE::python::detail

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
