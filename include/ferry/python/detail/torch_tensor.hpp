// ferry: properties of PyTorch tensors that DLPack cannot represent: rejected with an error that states the fix.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/published.hpp>

#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>

namespace ferry::inline v0::python::detail {

/// Returns the truth value of a new reference; throws error_is_set for null.
[[nodiscard]] inline bool is_true(reference answer) {
    if (answer.get() == Py_False) return false;
    int const truth = answer ? call_python([&] { return PyObject_IsTrue(answer.get()); }) : -1;
    if (truth < 0) throw error_is_set{};
    return truth != 0;
}
/// Returns the truth value of an attribute.
[[nodiscard]] inline bool attribute_is_true(PyObject* x, PyObject* attribute) {
    return is_true(reference{call_python([&] { return PyObject_GetAttr(x, attribute); })});
}
/// Returns the truth value of the result of a method without arguments.
[[nodiscard]] inline bool method_is_true(PyObject* x, PyObject* method) {
    return is_true(reference{call_python([&] { return PyObject_CallMethodNoArgs(x, method); })});
}

/// Rejects a tensor that requires a gradient, or whose memory holds the negated values. The exchange table exports both
/// kinds, and `Tensor.__dlpack__` exports the second. A subclass that overrides `__dlpack__` may detach the tensor, so
/// its gradient is not checked.
///
/// \param x     tensor
/// \param type  protocols that the type of `x` publishes
/// \throws error_is_set  BufferError; an exception of the tensor
inline void require_plain(PyObject* x, published const& type) {
    if (!type.overrides_torch && attribute_is_true(x, names().requires_grad))
        raise(PyExc_BufferError, "from_dlpack: the tensor requires a gradient, which DLPack cannot represent: import "
                                 "x.detach()");
    if (method_is_true(x, names().is_neg))
        raise(PyExc_BufferError, "from_dlpack: the tensor has its negative bit set, and its memory holds the negated "
                                 "values: import x.resolve_neg()");
}

inline constexpr char const* conjugated =
    "from_dlpack: the tensor has its conjugate bit set, and its memory holds the conjugated numbers: import "
    "x.resolve_conj()";

inline constexpr char const* without_memory =
    "from_dlpack: the tensor has elements and no memory: its storage was resized to 0, or it is a FakeTensor, a "
    "functional tensor or a zero tensor: import a tensor with memory";

/// Rejects a complex tensor whose memory holds the conjugated values, which the exchange table exports.
///
/// \param x  tensor
/// \throws error_is_set  BufferError; an exception of the tensor
inline void require_unconjugated(PyObject* x) {
    if (method_is_true(x, names().is_conj)) raise(PyExc_BufferError, conjugated);
}

/// Rejects a tensor with elements and without memory: its storage was resized to 0, or it is a FakeTensor, a functional
/// tensor or a zero tensor. PyTorch exports NULL plus the storage offset as its address, which `validate` cannot
/// detect. The offset is queried only for addresses below 2^46: on 64-bit systems, host addresses of a
/// position-independent program are higher. CUDA addresses may be lower.
///
/// \param x  tensor
/// \param v  its export
/// \throws error_is_set  BufferError; an exception of the tensor
inline void require_memory(PyObject* x, tensor_view const& v) {
    constexpr auto lowest_usual = std::uint64_t{1} << 46;
    auto const address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(v.data()));
    if (address >= lowest_usual || !is_addressable(v.device().type) || v.is_empty()) [[likely]]
        return;
    reference const result{call_python([&] { return PyObject_CallMethodNoArgs(x, names().storage_offset); })};
    long long offset = 0;
    if (!result) throw error_is_set{};
    bool const is_integer = to_integer(result.get(), offset);
    auto const size = static_cast<std::uint64_t>((bits_per_element(v.dtype()) + 7) / 8);
    if (!is_integer || address == static_cast<std::uint64_t>(offset) * size)
        raise(PyExc_BufferError, without_memory);
}

/// Rejects a tensor whose storage has no memory before PyTorch copies it, which would read from NULL. Accepts tensors
/// whose storage cannot be read: PyTorch allocates memory for them or raises an error.
///
/// \param x  tensor
/// \throws error_is_set  BufferError; an exception of the tensor
inline void require_storage(PyObject* x) {
    reference const storage{call_python([&] { return PyObject_CallMethodNoArgs(x, names().untyped_storage); })};
    reference const address{
        storage ? call_python([&] { return PyObject_CallMethodNoArgs(storage.get(), names().data_ptr); }) : nullptr};
    if (!address) {
        if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw error_is_set{};
        PyErr_Clear();
        return;
    }
    int const is_allocated = call_python([&] { return PyObject_IsTrue(address.get()); });
    if (is_allocated < 0) throw error_is_set{};
    if (is_allocated == 0 && !attribute_is_true(x, names().is_meta) && method_is_true(x, names().numel))
        raise(PyExc_BufferError, without_memory);
}

/// Replaces the Python error that PyTorch set for a conjugated, quantized, sparse, opaque or meta tensor, because the
/// class and text of that error depend on the function that was called. Keeps other errors.
///
/// \param x  tensor
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
        else if (method_is_true(x, names().is_conj)) why = conjugated;
        else if (attribute_is_true(x, names().is_meta))
            why = "from_dlpack: the tensor is on the meta device, and has no memory: import a tensor with memory";
        else if (attribute_is_true(x, names().is_quantized))
            why = "from_dlpack: the tensor is quantized, which DLPack cannot represent: import x.dequantize() or "
                  "x.int_repr()";
    } catch (error_is_set const&) {  // keeps the error of PyTorch
    }
    if (why != nullptr) replace_error(why);
}

}  // namespace ferry::inline v0::python::detail
