// ferry: what PyTorch's tensors have and DLPack has no word for: refused with a cure before anything is handed out.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/published.hpp>

namespace ferry::inline v0::python::detail {

/// Whether the instances of a type are PyTorch's tensors, and `__dlpack__` is PyTorch's own: a subclass that defines
/// another speaks for itself. Keeps the last such type: see producer_cache.
[[nodiscard]] FERRY_HIDDEN inline bool is_torch_tensor(PyTypeObject* type) {
    static constinit PyTypeObject* last = nullptr;
    static constinit unsigned last_tag = 0;
    bool const has_tag = type->tp_version_tag != 0 && PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) != 0;
    if (type == last && has_tag && type->tp_version_tag == last_tag) return true;
    auto const at = base_that_defines(type, names().requires_grad);  // a base of the class that defines `__dlpack__`
    if (at == PyTuple_GET_SIZE(type->tp_mro) || base_that_defines(type, names().dlpack) + 1 < at ||
        base_that_defines(type, names().is_neg) == PyTuple_GET_SIZE(type->tp_mro))
        return false;
    if (has_tag) last = type, last_tag = type->tp_version_tag;
    return true;
}

[[nodiscard]] inline bool is_true(reference answer) {
    if (answer.get() == Py_False) return false;
    int const truth = answer ? call_python([&] { return PyObject_IsTrue(answer.get()); }) : -1;
    if (truth < 0) throw error_is_set{};
    return truth != 0;
}
/// The answer of an attribute, or of a method without arguments.
[[nodiscard]] inline bool says(PyObject* x, PyObject* attribute) {
    return is_true(reference{call_python([&] { return PyObject_GetAttr(x, attribute); })});
}
[[nodiscard]] inline bool answers(PyObject* x, PyObject* method) {
    return is_true(reference{call_python([&] { return PyObject_CallMethodNoArgs(x, method); })});
}

/// Refuses a tensor of PyTorch whose meaning is more than its elements: its exchange table passes on these, and its
/// `__dlpack__` the negative bit.
inline void require_plain(PyObject* x) {
    if (says(x, names().requires_grad))
        raise(PyExc_BufferError, "from_dlpack: the tensor requires a gradient, which DLPack cannot carry: import "
                                 "x.detach()");
    if (answers(x, names().is_neg))
        raise(PyExc_BufferError, "from_dlpack: the tensor has its negative bit set, and its memory holds the opposite "
                                 "sign: import x.resolve_neg()");
}

inline constexpr char const* conjugated =
    "from_dlpack: the tensor has its conjugate bit set, and its memory holds the conjugated numbers: import "
    "x.resolve_conj()";

/// The same for the complex numbers that came, before they are given to anything.
inline void require_unconjugated(PyObject* x) {
    if (answers(x, names().is_conj)) raise(PyExc_BufferError, conjugated);
}

/// After PyTorch has refused a tensor, with its error set: replaces the error of a conjugated tensor, and of one
/// without strided memory, whose text and class depend on the way that was taken. Others stay.
inline void explain_refusal(PyObject* x) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return;
    char const* why = nullptr;
    try {
        kept_error const first;
        reference const layout{call_python([&] { return PyObject_GetAttrString(x, "layout"); })};
        reference const name{layout ? call_python([&] { return PyObject_Str(layout.get()); }) : nullptr};
        if (!name) throw error_is_set{};
        if (PyUnicode_CompareWithASCIIString(name.get(), "torch.strided") != 0)
            why = "from_dlpack: the tensor is sparse or opaque, and has no strided memory: import x.to_dense()";
        else if (answers(x, names().is_conj)) why = conjugated;
        else if (says(x, names().is_meta))
            why = "from_dlpack: the tensor is on the meta device, and has no memory: import one that is on a device";
        else if (says(x, names().is_quantized))
            why = "from_dlpack: the tensor is quantized, without a DLPack type: import x.dequantize() or x.int_repr()";
    } catch (error_is_set const&) {  // what PyTorch said stays
    }
    if (why != nullptr) replace_error(why);
}

}  // namespace ferry::inline v0::python::detail
