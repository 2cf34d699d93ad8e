// ferry: rejects PyTorch tensors with properties that DLPack cannot represent; the error states the fix.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/detail/published.hpp>
#include <ferry/python/error.hpp>

#include <ferry/base/device.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>

namespace FERRY_NAMESPACE::python::detail {

/// Returns the truth value of a new reference; throws error_is_set for null.
[[nodiscard]] FERRY_NOINLINE inline bool is_true(reference answer) {
    if (answer.get() == Py_False) return false;
    int const truth = answer ? call_python([&] { return PyObject_IsTrue(answer.get()); }) : -1;
    if (truth < 0) throw error_is_set{};
    return truth != 0;
}

/// Calls a method or reads a property of the base class of `torch.Tensor`. Calls neither `__torch_function__` nor an
/// override of the subclass, because either could hide a property of the exported memory.
/// \return             result; on failure, null with a Python error set
[[nodiscard]] FERRY_COLD inline reference ask_torch_base(PyObject* x, published const& type, PyObject* name,
                                                         bool is_property) {
    reference function{call_python([&] { return PyObject_GetAttr(type.torch_base, name); })};
    if (function && is_property)
        function = reference{call_python([&] { return PyObject_GetAttr(function.get(), names().get); })};
    reference const module{call_python([&] { return PyImport_GetModule(names().torch_module); })};
    reference const tensor{PyTuple_Pack(1, x)};
    if (!function || !module || !tensor) return {};
    return reference{call_python([&] {
        return PyObject_CallMethodObjArgs(module.get(), names().without_torch_function, function.get(), tensor.get(),
                                          tensor.get(), nullptr);  // function, types, args
    })};
}
/// Returns the value of a property of a tensor; on failure, null with a Python error set.
[[nodiscard]] FERRY_NOINLINE inline reference torch_property(PyObject* x, published const& type, PyObject* name) {
    if (type.is_torch_subclass) return ask_torch_base(x, type, name, true);
    return reference{call_python([&] { return PyObject_GetAttr(x, name); })};
}
/// Calls a method of a tensor, without arguments, and returns its result; on failure, null with a Python error set.
[[nodiscard]] FERRY_NOINLINE inline reference call_torch(PyObject* x, published const& type, PyObject* name) {
    if (type.is_torch_subclass) return ask_torch_base(x, type, name, false);
    return call_method_of(x, name);
}

/// Rejects a tensor that requires a gradient, or whose memory holds the negated values. The exchange table exports both
/// kinds, and `Tensor.__dlpack__` exports the second. A subclass that overrides `__dlpack__` may detach the tensor, so
/// its gradient is not checked.
inline void require_plain(PyObject* x, published const& type) {
    if (!type.overrides_torch && is_true(torch_property(x, type, names().requires_grad)))
        raise(PyExc_BufferError, "from_dlpack",
              ": the tensor requires a gradient, which DLPack cannot represent: import "
              "x.detach()");
    if (is_true(call_torch(x, type, names().is_neg)))
        raise(PyExc_BufferError, "from_dlpack",
              ": the tensor has its negative bit set, and its memory holds the negated "
              "values: import x.resolve_neg()");
}

inline constexpr ferry::detail::sentence conjugated =
    ": the tensor has its conjugate bit set, and its memory holds the conjugated numbers: import "
    "x.resolve_conj()";

inline constexpr ferry::detail::sentence without_memory =
    ": the tensor has elements and no memory: its storage was resized to 0, or it is a FakeTensor, a "
    "wrapper, a functional tensor or a ZeroTensor: import a tensor with memory";

/// Rejects a complex tensor whose memory holds the conjugated values, which the exchange table exports.
inline void require_unconjugated(PyObject* x, published const& type) {
    if (is_true(call_torch(x, type, names().is_conj))) raise(PyExc_BufferError, "from_dlpack", conjugated);
}

/// Converts the result of a method that returns an integer; 0 after an exception, which is cleared.
[[nodiscard]] FERRY_COLD inline std::uint64_t to_address(reference result) {
    long long value = 0;
    if (result) return to_integer(result.get(), value) ? static_cast<std::uint64_t>(value) : 0;
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw error_is_set{};
    PyErr_Clear();
    return 0;
}

/// Rejects a tensor with elements outside of the memory of its storage; see require_memory.
FERRY_COLD inline void require_storage(PyObject* x, published const& type, tensor_view const& v,
                                       std::uint64_t address) {
    // An override may export another tensor.
    if (type.overrides_torch && to_address(call_torch(x, type, names().data_ptr)) != address) return;
    reference const storage{call_torch(x, type, names().untyped_storage)};
    if (!storage) throw error_is_set{};
    auto const begin = to_address(call_method_of(storage.get(), names().data_ptr));  // an exception without memory
    if (begin == 0) raise(PyExc_BufferError, "from_dlpack", without_memory);
    auto const size = to_address(call_method_of(storage.get(), names().nbytes)), offset = address - begin;
    ferry::detail::byte_reach reach;
    static_cast<void>(ferry::detail::check_reach(v, reach, {"from_dlpack", in_python}));
    if (offset >= size || reach.below > offset || reach.above > size - offset)
        raise(PyExc_BufferError, "from_dlpack",
              ": elements of the tensor are beyond the end of its storage, which was "
              "resized: import a tensor whose storage has all elements");
}

/// Rejects a tensor with elements outside of the memory of its storage (R23, R26, R32): the storage was shrunk, or it
/// has no memory, as for a FakeTensor, a wrapper, a functional tensor or a ZeroTensor. For storage without
/// memory, PyTorch exports NULL plus the storage offset as the address, which `validate` cannot detect.
///
/// The storage of a plain, shared tensor is queried only for addresses below 2^46, because the query is slow compared
/// with the import. On 64-bit systems, host addresses of a position-independent program are higher; CUDA addresses may
/// be lower.
inline void require_memory(PyObject* x, published const& type, tensor_view const& v, bool is_certain) {
    constexpr auto lowest_usual = std::uint64_t{1} << 46;
    auto const address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(v.data()));
    if ((address >= lowest_usual && !is_certain) || !is_addressable(v.device().type) || v.is_empty()) [[likely]]
        return;
    require_storage(x, type, v, address);
}

/// Replaces the Python error that PyTorch set for a conjugated, quantized, sparse, opaque or meta tensor, because the
/// class and text of that error depend on the function that was called. Keeps other errors.
FERRY_COLD inline void explain_refusal(PyObject* x, published const& type) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return;
    bool is_known = true;
    ferry::detail::sentence why = nullptr;
    try {
        kept_error const first;
        reference const layout{call_python([&] { return PyObject_GetAttrString(x, "layout"); })};
        reference const name{layout ? call_python([&] { return PyObject_Str(layout.get()); }) : nullptr};
        if (!name) throw error_is_set{};
        if (PyUnicode_CompareWithASCIIString(name.get(), "torch.strided") != 0)
            why = ": the tensor is sparse or opaque, and has no strided memory: import x.to_dense()";
        else if (is_true(call_torch(x, type, names().is_conj))) why = conjugated;
        else if (is_true(torch_property(x, type, names().is_meta)))
            why = ": the tensor is on the meta device, and has no memory: import a tensor with memory";
        else if (is_true(torch_property(x, type, names().is_quantized)))
            why =
                ": the tensor has a quantized type, which DLPack does not define: import x.dequantize() "
                "or x.int_repr()";
        else is_known = false;
    } catch (error_is_set const&) {
        is_known = false;  // the error of PyTorch stays
    }
    if (is_known) replace_error("from_dlpack", why);
}

}  // namespace FERRY_NAMESPACE::python::detail
