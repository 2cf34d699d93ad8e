// ferry: `__cuda_array_interface__` v3, both ways: the join of Python and CUDA.
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/install.hpp>
#include <ferry/python/object.hpp>

#include <ferry/cuda/facts.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

namespace ferry::python {
namespace detail {

/// The letter of NumPy's type strings; 0 for the types that they cannot name.
[[nodiscard]] constexpr char letter_of(data_type t) noexcept {
    if (t.lanes != 1 || t.bits % 8 != 0) return 0;
    switch (t.code) {
        case type_code::bool_: return 'b';
        case type_code::int_: return 'i';
        case type_code::uint: return 'u';
        case type_code::float_: return 'f';
        case type_code::complex: return 'c';
        default: return 0;
    }
}

/// "<f4", "|b1", "<c8", … as a type.
[[nodiscard]] inline data_type type_from_text(char const* text) {
    constexpr char const* complaint = "__cuda_array_interface__: typestr must be a string such as '<f4'";
    char const order = text[0], letter = order != '\0' ? text[1] : '\0';
    std::int64_t bytes = 0;
    char const* digit = letter != '\0' ? text + 2 : "";
    for (; *digit >= '0' && *digit <= '9' && bytes < 1000; ++digit) bytes = 10 * bytes + (*digit - '0');
    bool const readable = (order == '<' || order == '>' || order == '|' || order == '=') && bytes > 0 && *digit == '\0';
    if (!readable) raise(PyExc_ValueError, complaint);
    constexpr std::pair<char, type_code> letters[] = {
        {'b', type_code::bool_}, {'i', type_code::int_}, {'u', type_code::uint}, {'f', type_code::float_}, {'c', type_code::complex}};
    for (auto const& [known, code] : letters) {
        if (known != letter || bytes > 16) continue;
        data_type const type{code, static_cast<std::uint8_t>(8 * bytes)};
        if (!is_valid(type)) break;
        if (order == '>' && bytes > 1)
            raise(PyExc_BufferError, "__cuda_array_interface__: the elements are big-endian (R20): copy them to the native byte order");
        return type;
    }
    PyErr_Format(PyExc_BufferError, "__cuda_array_interface__: there is no DLPack type for elements of typestr '%.50s' (R16)", text);
    throw error_is_set{};
}

/// One entry of the interface; null when it is missing or None.
[[nodiscard]] inline PyObject* entry(PyObject* facts, char const* key) {
    reference name{PyUnicode_FromString(key)};
    if (!name) throw error_is_set{};
    PyObject* const value = PyDict_GetItemWithError(facts, name.get());
    if (value == nullptr && PyErr_Occurred() != nullptr) throw error_is_set{};
    return value == Py_None ? nullptr : value;
}

[[nodiscard]] inline std::vector<std::int64_t> integers_from(PyObject* tuple, char const* complaint) {
    if (PyTuple_Check(tuple) == 0 && PyList_Check(tuple) == 0) raise(PyExc_ValueError, complaint);
    reference const held{PySequence_Tuple(tuple)};  // to read an integer may run code that changes a list
    if (!held) throw error_is_set{};
    tuple = held.get();
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(tuple)));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        long long n = 0;
        if (!to_integer(PySequence_Fast_GET_ITEM(tuple, static_cast<Py_ssize_t>(i)), n)) raise(PyExc_ValueError, complaint);
        numbers[i] = n;
    }
    return numbers;
}

/// The stream on which the elements are ready. None and, from version 3 on, a missing entry say that nothing is pending; older
/// versions had no word for it, and mean the legacy default stream.
[[nodiscard]] inline stream_token stream_of(PyObject* facts, long long version) {
    PyObject* const given = entry(facts, "stream");
    if (given == nullptr) return version >= 3 ? already_ready : stream_token::cuda_legacy_default();
    long long number = 0;
    if (PyBool_Check(given) != 0 || !to_integer(given, number) || number <= 0)
        raise(PyExc_ValueError, "__cuda_array_interface__: stream must be None, 1, 2 or a cudaStream_t; 0 is ambiguous (R44)");
    return stream_token::from_cuda_handle(static_cast<std::uintptr_t>(number));
}

[[nodiscard]] inline device current_device() {
    int id = 0;
    cuda::check(cudaGetDevice(&id), "cudaGetDevice");
    return {device_type::cuda, id};
}

[[nodiscard]] inline PyObject* tuple_of(int count, auto&& number) {
    reference tuple{PyTuple_New(count)};
    for (int i = 0; tuple && i < count; ++i) {
        PyObject* const n = PyLong_FromLongLong(number(i));
        if (n == nullptr) return nullptr;
        PyTuple_SET_ITEM(tuple.get(), i, n);
    }
    return tuple.release();
}

}  // namespace detail

/// Imports an object with `__cuda_array_interface__`, of any version; nothing when it has none. The object is kept alive as
/// the owner. The device is where the driver says that the pointer is: managed and pinned memory arrive as such. Neither
/// copies nor synchronises: what comes with the tensor says where it is ready.
///
/// \throws error_is_set  BufferError for a mask, other byte order (R20), types without a DLPack name, strides within elements
///                       (R30); ValueError for what is malformed;  error  errc::foreign_pointer, no_driver, what `validate` finds
[[nodiscard]] inline std::optional<detail::arrival> from_cuda_array_interface(PyObject* x) {
    reference const facts{PyObject_GetAttrString(x, "__cuda_array_interface__")};
    if (!facts) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw error_is_set{};
        PyErr_Clear();
        return {};
    }
    if (PyDict_Check(facts.get()) == 0) raise(PyExc_ValueError, "__cuda_array_interface__ must be a dict");
    long long version = 0, address = 0;
    if (auto* const v = detail::entry(facts.get(), "version"); v != nullptr && !detail::to_integer(v, version))
        raise(PyExc_ValueError, "__cuda_array_interface__: version must be an integer");
    if (detail::entry(facts.get(), "mask") != nullptr)
        raise(PyExc_BufferError, "__cuda_array_interface__: masked elements cannot travel by DLPack: apply the mask first");
    auto* const typestr = detail::entry(facts.get(), "typestr");
    char const* const text = typestr != nullptr && PyUnicode_Check(typestr) != 0 ? PyUnicode_AsUTF8(typestr) : "";
    if (text == nullptr) throw error_is_set{};
    data_type const type = detail::type_from_text(text);
    auto* const extents = detail::entry(facts.get(), "shape");
    if (extents == nullptr) raise(PyExc_ValueError, "__cuda_array_interface__ has no shape");
    auto const shape = detail::integers_from(extents, "__cuda_array_interface__: shape must be a tuple of integers");
    std::vector<std::int64_t> strides;
    if (auto* const steps = detail::entry(facts.get(), "strides")) {
        strides = detail::integers_from(steps, "__cuda_array_interface__: strides must be None or a tuple of integers");
        if (strides.size() != shape.size()) raise(PyExc_ValueError, "__cuda_array_interface__: shape and strides differ in length");
        std::int64_t const bytes = bits_per_element(type) / 8;
        for (auto& step : strides) {
            if (step % bytes != 0)
                raise(PyExc_BufferError, "__cuda_array_interface__: the strides are no multiples of the element's size (R30): copy the array");
            step /= bytes;
        }
    }
    auto* const data = detail::entry(facts.get(), "data");
    bool const is_pair = data != nullptr && PyTuple_Check(data) != 0 && PyTuple_GET_SIZE(data) == 2;
    reference const pointer{is_pair ? PyNumber_Index(PyTuple_GET_ITEM(data, 0)) : nullptr};
    int const read_only = is_pair ? PyObject_IsTrue(PyTuple_GET_ITEM(data, 1)) : -1;
    if (pointer) address = static_cast<long long>(PyLong_AsUnsignedLongLongMask(pointer.get()));
    if (!pointer || read_only < 0 || PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        raise(PyExc_ValueError, "__cuda_array_interface__: data must be a pair (pointer, read-only)");
    }
    stream_token const ready = detail::stream_of(facts.get(), version);

    auto* const first = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    bool const is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    device const where = first != nullptr && !is_empty ? cuda::where_is(first) : detail::current_device();
    tensor_view const v{first, type, shape, strides.empty() ? strides_view{} : strides_view{strides}, where,
                        read_only != 0 ? flags::read_only : flags::none};
    if (where.type == device_type::cpu)
        ferry::detail::fail(errc::foreign_pointer, "__cuda_array_interface__", message{"CUDA does not know the pointer: the memory is the host's own"});
    return detail::arrival{make_managed(owned_object::share(x), v), ready.on_device(where)};
}

namespace detail {

/// The interface of an array, as a new dict; null with a Python error set.
template <class T>
[[nodiscard]] PyObject* describe_for_cuda(T& array) {
    tensor_view const v = view_of(array);
    char const letter = letter_of(v.dtype());
    if (v.device().type != device_type::cuda && v.device().type != device_type::cuda_managed)
        raise(PyExc_AttributeError, "__cuda_array_interface__: the elements are not on a CUDA device");
    if (letter == 0) raise(PyExc_AttributeError, "__cuda_array_interface__ has no name for the data type: use __dlpack__");
    int const bytes = v.dtype().bits / 8;
    char typestr[8];
    std::snprintf(typestr, sizeof typestr, "%c%c%d", bytes == 1 ? '|' : '<', letter, bytes);
    reference const shape{tuple_of(v.rank(), [&](int i) { return v.extent(i); })};
    reference const strides{v.is_contiguous() ? Py_BuildValue("") : tuple_of(v.rank(), [&](int i) { return v.stride(i) * bytes; })};
    stream_token const ready = ferry::detail::ready_on(array).on_device(v.device());
    reference const stream{ready.names_stream() ? PyLong_FromUnsignedLongLong(ready.native_handle()) : Py_BuildValue("")};
    if (!shape || !strides || !stream) return nullptr;
    auto const address = v.is_empty() ? 0 : reinterpret_cast<std::uintptr_t>(v.data()) + v.byte_offset();
    return Py_BuildValue("{s:i,s:O,s:s,s:[(ss)],s:O,s:(KO),s:O}", "version", 3, "shape", shape.get(), "typestr", typestr, "descr", "",
                         typestr, "strides", strides.get(), "data", static_cast<unsigned long long>(address),
                         v.is_read_only() ? Py_True : Py_False, "stream", stream.get());
}

template <class T, class Unwrap>
struct FERRY_HIDDEN cuda_interface_of {
    static PyObject* get(PyObject* self, void*) noexcept {
        try {
            T* const array = Unwrap{}(self);
            if (array == nullptr) raise(PyExc_TypeError, "the object is not of the type that this property was installed on");
            return describe_for_cuda(*array);
        } catch (...) {
            translate_exception();
            return nullptr;
        }
    }
    static inline PyGetSetDef property{"__cuda_array_interface__", &get, nullptr, PyDoc_STR("The CUDA array interface, version 3; only on CUDA devices."), nullptr};
};

}  // namespace detail

/// Gives `type` the property `__cuda_array_interface__`, version 3: the elements as they are, `stream` where array_traits::ready_on
/// says that they are ready, None when nothing is pending. An AttributeError, so that hasattr is false, for memory of other
/// kinds than CUDA and managed, and for types that it cannot name. The arguments, and what happens on failure, are those of
/// install_dlpack.
template <class T, stateless Unwrap>
[[nodiscard]] bool install_cuda_array_interface(PyTypeObject* type, Unwrap) noexcept {
    return detail::set_attribute(type, "__cuda_array_interface__", PyDescr_NewGetSet(type, &detail::cuda_interface_of<T, Unwrap>::property));
}

}  // namespace ferry::python
