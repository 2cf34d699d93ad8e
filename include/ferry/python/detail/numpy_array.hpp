// ferry: reads NumPy arrays without calls of `__dlpack__`.
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/base/version.hpp>
#include <ferry/config.hpp>
#include <ferry/tensor/as.hpp>
#include <ferry/tensor/detail/make_raw.hpp>
#include <ferry/tensor/detail/ordinary.hpp>
#include <ferry/tensor/detail/strides.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/view.hpp>

#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace FERRY_NAMESPACE::python::detail {

/// What an array is to a typed view. `unknown`: another object, an array that fails a check, or one that is rare; the
/// import through `__dlpack__` decides, and reports errors.
enum class numpy_match { unknown, differs, matches };

#if defined(Py_LIMITED_API)  // whose headers have no PyObject_HEAD

inline numpy_match match_numpy(PyObject*, ferry::detail::as_target const&, std::int64_t*, void*&) {
    return numpy_match::unknown;
}
inline managed_tensor import_numpy(PyObject*) { return {}; }

#else

/// The first members of PyArrayObject and PyArray_Descr. NumPy's C API compiles reads of them into each extension, so
/// they belong to the ABI of NumPy 1 and 2, which find_numpy checks.
struct numpy_array {
    PyObject_HEAD char* data;
    int rank;
    Py_ssize_t const *shape, *strides;  // strides in bytes
    PyObject *base, *descr;
    unsigned flags;
};
struct numpy_descr {
    PyObject_HEAD PyTypeObject* scalar;
    char kind, character, byte_order, others;
    int number;
};

/// The type numpy.ndarray; null until its first array.
FERRY_HIDDEN inline constinit atomic_pointer<PyTypeObject> numpy_type;

/// Sets `numpy_type` if `type` is numpy.ndarray and the version of its ABI is known; returns whether it is.
[[nodiscard]] FERRY_COLD FERRY_HIDDEN inline bool find_numpy(PyTypeObject* type) {
    static constinit atomic_pointer<PyTypeObject> unknown;
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) != 0 || type == unknown.get() ||
        std::strcmp(type->tp_name, "numpy.ndarray") != 0)
        return false;
    PyObject* const modules = PyImport_GetModuleDict();
    PyObject* module = PyDict_GetItemString(modules, "numpy._core._multiarray_umath");
    if (module == nullptr) module = PyDict_GetItemString(modules, "numpy.core._multiarray_umath");  // NumPy 1
    reference const capsule{module != nullptr ? PyObject_GetAttrString(module, "_ARRAY_API") : nullptr};
    auto* const api = capsule ? static_cast<void**>(PyCapsule_GetPointer(capsule.get(), nullptr)) : nullptr;
    PyErr_Clear();
    auto const abi = api != nullptr ? reinterpret_cast<unsigned (*)()>(api[0])() : 0u;   // PyArray_GetNDArrayCVersion
    bool const is_known = (abi == 0x0100'0009 || abi == 0x0200'0000) && api[2] == type;  // PyArray_Type
    static_cast<void>((is_known ? numpy_type : unknown).set_once(type));
    return is_known;
}

/// Returns an object of the type numpy.ndarray; null for other objects, subclasses included.
[[nodiscard]] inline numpy_array const* as_numpy_array(PyObject* x) {
    PyTypeObject const* const known = numpy_type.get();
    bool const is = known != nullptr ? Py_TYPE(x) == known : find_numpy(Py_TYPE(x));
    return is ? reinterpret_cast<numpy_array const*>(x) : nullptr;
}

/// Returns the data type of an array; bits = 0 if it has another byte order or none of these types, such as long
/// double, whose size depends on the platform, or if its first write causes a warning.
[[nodiscard]] FERRY_HIDDEN inline data_type type_of(numpy_array const& a) noexcept {
    constexpr std::uint8_t long_bits = 8 * sizeof(long);
    using enum type_code;
    static constexpr data_type by_number[] = {{bool_, 8},        {int_, 8},   {uint, 8},     {int_, 16},
                                              {uint, 16},        {int_, 32},  {uint, 32},    {int_, long_bits},
                                              {uint, long_bits}, {int_, 64},  {uint, 64},    {float_, 32},
                                              {float_, 64},      {float_, 0}, {complex, 64}, {complex, 128}};
    constexpr unsigned warns_on_write = 1u << 31, half = 23;
    auto const& descr = *reinterpret_cast<numpy_descr const*>(a.descr);
    auto const number = static_cast<unsigned>(descr.number);
    bool const is_native = descr.byte_order == '=' || descr.byte_order == '|';
    if (!is_native || (a.flags & warns_on_write) != 0) return {float_, 0};
    if (number == half) return {float_, 16};
    return number < std::size(by_number) ? by_number[number] : data_type{float_, 0};
}
[[nodiscard]] inline bool is_writeable(numpy_array const& a) noexcept {
    constexpr unsigned writeable = 0x400;
    return (a.flags & writeable) != 0;
}

/// Writes the extents and strides of an array of a given data type to `lists`, which has room for two numbers a
/// dimension. Returns whether the array is valid and common; if so, `compact` is whether its elements are compact.
[[nodiscard]] FERRY_ALWAYS_INLINE bool list_numpy(numpy_array const& a, data_type type, std::int64_t* lists,
                                                  bool& compact) noexcept {
    int const bytes = type.bits / 8, rank = a.rank;
    int const shift = std::countr_zero(static_cast<unsigned>(bytes));
    for (int i = 0; i < rank; ++i) {
        if ((a.strides[i] & (bytes - 1)) != 0) return false;  // R30
        lists[i] = a.shape[i];
        lists[rank + i] = a.strides[i] >> shift;
    }
    DLDataType const of_size{abi::code::uint, type.bits, 1};  // bool and complex are not ordinary
    DLTensor const t{a.data, cpu.to_abi(), rank, of_size, lists, lists + rank, 0};
    return ferry::detail::is_ordinary(t) && ((compact = ferry::detail::is_compact(t)) || ferry::detail::is_strided(t));
}

/// Compares an object with the requirements of a typed view of static rank in host memory: those that check_as checks.
/// On a match, sets `data`, and writes the extents and strides to `lists`.
[[nodiscard]] FERRY_NOINLINE inline numpy_match match_numpy(PyObject* x, ferry::detail::as_target const& to,
                                                            std::int64_t* lists, void*& data) {
    auto const* const a = as_numpy_array(x);
    auto const type = a != nullptr ? type_of(*a) : data_type{type_code::float_, 0};
    if (type.bits == 0) return numpy_match::unknown;
    if (type != to.dtype || a->rank != to.rank || !(to.is_const || is_writeable(*a))) return numpy_match::differs;
    bool compact = false;
    if (!list_numpy(*a, type, lists, compact) || reinterpret_cast<std::uintptr_t>(a->data) % to.alignment != 0)
        return numpy_match::unknown;
    if (!compact &&
        (to.strides != layout::strided ||
         (!to.is_const && ferry::detail::repeated_dimension({lists, to.rank}, {lists + to.rank, to.rank}) >= 0)))
        return numpy_match::unknown;
    data = a->data;
    return numpy_match::matches;
}

/// Imports an array. Returns an empty tensor for other objects, and for arrays to import through `__dlpack__`.
[[nodiscard]] FERRY_NOINLINE inline managed_tensor import_numpy(PyObject* x) {
    auto const* const a = as_numpy_array(x);
    auto const type = a != nullptr ? type_of(*a) : data_type{type_code::float_, 0};
    std::int64_t lists[2 * 64];  // NumPy's limit
    bool compact = false;
    if (type.bits == 0 || a->rank > 64 || !list_numpy(*a, type, lists, compact)) return {};
    void* const data = a->data;
    tensor_view const v{data,
                        type,
                        {lists, a->rank},
                        {lists + a->rank, a->rank},
                        cpu,
                        is_writeable(*a) ? flags::none : flags::read_only};
    return ferry::detail::trusted::adopt(ferry::detail::make_valid_raw<DLManagedTensorVersioned>(
        owned_object::share(x), ferry::detail::fixed_view{v}, v, cpu, v.flags(), version::current,
        {"ferry::from_dlpack", in_python}));
}

#endif

}  // namespace FERRY_NAMESPACE::python::detail
