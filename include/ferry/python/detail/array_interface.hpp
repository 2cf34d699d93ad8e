// ferry: reads and writes the entries of `__cuda_array_interface__`, without the CUDA headers.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/detail/published.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/view.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace FERRY_NAMESPACE::python::detail {

/// Returns the kind character of a data type in NumPy's typestr; 0 for types that typestr cannot name.
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

/// Returns the data type of a typestr: "<f4", "|b1", "<c8", …
/// \throws error_is_set  ValueError: a malformed typestr;  BufferError: big-endian elements (R20), or a type without a
///                       DLPack data type (R16)
[[nodiscard]] inline data_type type_from_text(char const* text) {
    char const order = text[0], letter = order != '\0' ? text[1] : '\0';
    std::int64_t bytes = 0;
    char const* digit = letter != '\0' ? text + 2 : "";
    for (; *digit >= '0' && *digit <= '9' && bytes < 1000; ++digit) bytes = 10 * bytes + (*digit - '0');
    bool const readable = (order == '<' || order == '>' || order == '|' || order == '=') && bytes > 0 && *digit == '\0';
    if (!readable)
        raise(PyExc_ValueError, "__cuda_array_interface__",
              ": typestr is malformed: expected byte order, kind and size, such as '<f4'");
    constexpr std::pair<char, type_code> letters[] = {{'b', type_code::bool_},
                                                      {'i', type_code::int_},
                                                      {'u', type_code::uint},
                                                      {'f', type_code::float_},
                                                      {'c', type_code::complex}};
    for (auto const& [known, code] : letters) {
        if (known != letter || bytes > 16) continue;
        data_type const type{code, static_cast<std::uint8_t>(8 * bytes)};
        if (!is_valid(type)) break;
        if (order == '>' && bytes > 1)
            raise(PyExc_BufferError, "__cuda_array_interface__",
                  ": expected little-endian elements, got big-endian ones: convert the "
                  "array to the native byte order");
        return type;
    }
    PyErr_Format(PyExc_BufferError,
                 "__cuda_array_interface__: typestr '%.50s' has no DLPack data type: convert the elements to a "
                 "boolean, integer, real or complex type",
                 text);
    throw error_is_set{};
}

/// Returns an entry of the interface; null if it is missing or None. The reference is strong, because reading an entry
/// may run Python code that clears the dictionary.
[[nodiscard]] inline reference entry(PyObject* dict, char const* key) {
    reference const name{PyUnicode_FromString(key)};
    if (!name) throw error_is_set{};
#if defined(Py_GIL_DISABLED)
    PyObject* value = nullptr;
    if (PyDict_GetItemRef(dict, name.get(), &value) < 0) throw error_is_set{};
#else
    PyObject* const value = PyDict_GetItemWithError(dict, name.get());
    if (value == nullptr && PyErr_Occurred() != nullptr) throw error_is_set{};
    Py_XINCREF(value);
#endif
    reference found{value};
    return value != Py_None ? std::move(found) : reference{};
}

/// Returns the integers of a tuple or list. `error_text` is the text of the ValueError for other
/// objects, after the name of the attribute.
[[nodiscard]] inline std::vector<std::int64_t> integers_from(PyObject* sequence, ferry::detail::sentence error_text) {
    if (PyTuple_Check(sequence) == 0 && PyList_Check(sequence) == 0)
        raise(PyExc_ValueError, "__cuda_array_interface__", error_text);
    reference const copy{PySequence_Tuple(sequence)};  // reading an integer may run Python code that changes a list
    if (!copy) throw error_is_set{};
    PyObject* const tuple = copy.get();
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(tuple_size(tuple)));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        long long n = 0;
        if (!to_integer(tuple_item(tuple, static_cast<Py_ssize_t>(i)), n))
            raise(PyExc_ValueError, "__cuda_array_interface__", error_text);
        numbers[i] = n;
    }
    return numbers;
}

/// Returns the stream on which the elements are ready. If the entry is None or missing in version 3, which introduced
/// the entry, no work is pending; in earlier versions, work may be pending on the legacy default stream.
/// \throws error_is_set  ValueError: not a stream (R44)
[[nodiscard]] inline stream_token stream_of(PyObject* dict, long long version) {
    reference const stream = entry(dict, "stream");
    if (!stream) return version >= 3 ? already_ready : stream_token::cuda_legacy_default();
    long long number = 0;
    if (PyBool_Check(stream.get()) != 0 || !to_integer(stream.get(), number) || number <= 0)
        raise(PyExc_ValueError, "__cuda_array_interface__",
              ": stream is not a valid handle: expected None, 1, 2 or a cudaStream_t");
    return stream_token::from_cuda_handle(static_cast<std::uintptr_t>(number));
}

/// Returns the value of the entry `stream` as a new reference, None if no work is pending; on failure null, with a
/// Python error set.
/// \throws error  errc::stream: a null handle, which the interface forbids (R44), or a stream of another device type
[[nodiscard]] inline PyObject* stream_entry(stream_token ready) {
    if (!ready.names_stream()) return Py_BuildValue("");
    if (!fits(ready, device_type::cuda))
        ferry::detail::fail(errc::stream, "__cuda_array_interface__",
                            message{"the stream is null or not a CUDA stream (R44): use the legacy default stream, "
                                    "the per-thread default stream or a cudaStream_t"});
    return PyLong_FromUnsignedLongLong(ready.native_handle());
}

/// Returns a new tuple of the integers number(0), …, number(count - 1); on failure null, with a Python error set.
[[nodiscard]] inline PyObject* tuple_of(int count, auto&& number) {
    reference tuple{PyTuple_New(count)};
    for (int i = 0; tuple && i < count; ++i) {
        PyObject* const n = PyLong_FromLongLong(number(i));
        if (n == nullptr) return nullptr;
        set_item(tuple.get(), i, n);
    }
    return tuple.release();
}

/// The entries of a `__cuda_array_interface__`, which does not specify the device.
struct array_interface {
    data_type type;                            ///< 1-bit unsigned integer for a mask of bits
    std::vector<std::int64_t> shape, strides;  ///< strides in elements; empty for compact elements
    void* first;
    bool read_only;
    stream_token ready;
    reference mask;  ///< null without a mask

    [[nodiscard]] bool is_empty() const noexcept { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }
    [[nodiscard]] tensor_view view(device dev) const noexcept {
        return {first, type,
                shape, strides.empty() ? strides_view{} : strides_view{strides},
                dev,   read_only ? flags::read_only : flags::none};
    }
};

/// Reads the `__cuda_array_interface__` of an object, in any version; returns std::nullopt if the object has none. With
/// `allow_bits`, typestr may be "<t1" or "|t1", one bit for each element of a mask.
/// \throws error_is_set  BufferError: big-endian elements (R20), a type without a DLPack data type (R16), or strides
///                       that are not multiples of the element size (R30);  ValueError: a malformed interface
[[nodiscard]] inline std::optional<array_interface> read_array_interface(PyObject* x, bool allow_bits = false) {
    require_main_interpreter();
    reference const dict = find_attribute(x, "__cuda_array_interface__");
    if (!dict) return {};
    if (PyDict_Check(dict.get()) == 0) raise(PyExc_ValueError, "__cuda_array_interface__", " is not a dict");
    long long version = 0, address = 0;
    if (reference const v = entry(dict.get(), "version"); v && !to_integer(v.get(), version))
        raise(PyExc_ValueError, "__cuda_array_interface__", ": version is not an integer");
    reference const typestr = entry(dict.get(), "typestr");
    char const* const text =
        typestr && PyUnicode_Check(typestr.get()) != 0 ? PyUnicode_AsUTF8AndSize(typestr.get(), nullptr) : "";
    if (text == nullptr) throw error_is_set{};
    array_interface out{};
    bool const are_bits = allow_bits && (std::strcmp(text, "<t1") == 0 || std::strcmp(text, "|t1") == 0);
    out.type = are_bits ? data_type{type_code::uint, 1} : type_from_text(text);
    reference const extents = entry(dict.get(), "shape");
    if (!extents)
        raise(PyExc_ValueError, "__cuda_array_interface__", ": shape is missing: expected a tuple of integers");
    out.shape = integers_from(extents.get(), ": shape is not a tuple of integers");
    if (reference const steps = entry(dict.get(), "strides")) {
        out.strides = integers_from(steps.get(),
                                    ": strides are not a tuple of integers: expected a stride for each dimension, or "
                                    "None");
        if (out.strides.size() != out.shape.size())
            raise(PyExc_ValueError, "__cuda_array_interface__",
                  ": shape and strides differ in length: expected a stride for each dimension, "
                  "or None");
        if (are_bits)
            raise(PyExc_BufferError, "__cuda_array_interface__",
                  ": a mask of bits has strides: expected None for compact bits");
        std::int64_t const bytes = bits_per_element(out.type) / 8;
        for (auto& step : out.strides) {
            if (step % bytes != 0)
                raise(PyExc_BufferError, "__cuda_array_interface__",
                      ": a stride is not a multiple of the element size: copy the array");
            step /= bytes;
        }
    }
    reference const data = entry(dict.get(), "data");
    bool const is_pair = data && PyTuple_Check(data.get()) != 0 && tuple_size(data.get()) == 2;
    reference const pointer{is_pair ? PyNumber_Index(tuple_item(data.get(), 0)) : nullptr};
    int const read_only = is_pair ? PyObject_IsTrue(tuple_item(data.get(), 1)) : -1;
    if (pointer) address = static_cast<long long>(PyLong_AsUnsignedLongLongMask(pointer.get()));
    if (!pointer || read_only < 0 || PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        raise(PyExc_ValueError, "__cuda_array_interface__", ": data is not a pair (pointer, read-only)");
    }
    out.first = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    out.read_only = read_only != 0;
    out.ready = stream_of(dict.get(), version);
    out.mask = entry(dict.get(), "mask");
    return out;
}

/// Returns a new dict, the `__cuda_array_interface__` of an array; on failure null, with a Python error set. The data
/// is read-only if the view is (R11), or if a stride of 0 repeats elements (R29).
/// \throws error_is_set  AttributeError: not in CUDA or managed memory, or a data type that typestr cannot name
/// \throws error         errc::stream: `ready_on` is null (R44), or a stream of another device (R43)
template <class T>
[[nodiscard]] PyObject* describe_for_cuda(T& array) {
    require_main_interpreter();
    tensor_view const& v = view_of(array);
    char const letter = letter_of(v.dtype());
    if (v.device().type != device_type::cuda && v.device().type != device_type::cuda_managed)
        raise(PyExc_AttributeError, "__cuda_array_interface__", ": the data is not on a CUDA device: use __dlpack__");
    if (letter == 0)
        raise(PyExc_AttributeError, "__cuda_array_interface__", ": typestr cannot name the data type: use __dlpack__");
    int const bytes = v.dtype().bits / 8;
    char typestr[8];
    std::snprintf(typestr, sizeof typestr, "%c%c%d", bytes == 1 ? '|' : '<', letter, bytes);
    reference const shape{tuple_of(v.rank(), [&](int i) { return v.extent(i); })};
    reference const strides{v.is_contiguous() ? Py_BuildValue("")
                                              : tuple_of(v.rank(), [&](int i) { return v.stride(i) * bytes; })};
    ferry::detail::reporter const r{"__cuda_array_interface__", in_python};
    auto const ready = ferry::detail::ready_stream(array, host_only, r);
    static_cast<void>(ferry::detail::check_stream(ready, v.device(), r));
    reference const stream{stream_entry(ready.on_device(v.device()))};
    if (!shape || !strides || !stream) return nullptr;
    auto const address = v.is_empty() ? 0 : reinterpret_cast<std::uintptr_t>(v.data()) + v.byte_offset();
    return Py_BuildValue("{s:i,s:O,s:s,s:[(ss)],s:O,s:(KO),s:O}", "version", 3, "shape", shape.get(), "typestr",
                         typestr, "descr", "", typestr, "strides", strides.get(), "data",
                         static_cast<unsigned long long>(address), v.is_writable() ? Py_False : Py_True, "stream",
                         stream.get());
}

}  // namespace FERRY_NAMESPACE::python::detail
