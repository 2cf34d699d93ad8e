// ferry: what a `__cuda_array_interface__` says, apart from CUDA: parsed, checked, and written.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/tensor/view.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace ferry::inline v0::python::detail {

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
            raise(PyExc_BufferError,
                  "__cuda_array_interface__: the elements are big-endian (R20): copy them to the native byte order");
        return type;
    }
    PyErr_Format(PyExc_BufferError,
                 "__cuda_array_interface__: there is no DLPack type for elements of typestr '%.50s' (R16)", text);
    throw error_is_set{};
}

/// One entry of the interface; null when it is missing or None. Held, because to read one may run code that empties the
/// dictionary.
[[nodiscard]] inline reference entry(PyObject* facts, char const* key) {
    reference const name{PyUnicode_FromString(key)};
    if (!name) throw error_is_set{};
    PyObject* const value = PyDict_GetItemWithError(facts, name.get());
    if (value == nullptr && PyErr_Occurred() != nullptr) throw error_is_set{};
    if (value == nullptr || value == Py_None) return {};
    Py_INCREF(value);
    return reference{value};
}

[[nodiscard]] inline std::vector<std::int64_t> integers_from(PyObject* tuple, char const* complaint) {
    if (PyTuple_Check(tuple) == 0 && PyList_Check(tuple) == 0) raise(PyExc_ValueError, complaint);
    reference const held{PySequence_Tuple(tuple)};  // to read an integer may run code that changes a list
    if (!held) throw error_is_set{};
    tuple = held.get();
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(tuple)));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        long long n = 0;
        if (!to_integer(PySequence_Fast_GET_ITEM(tuple, static_cast<Py_ssize_t>(i)), n))
            raise(PyExc_ValueError, complaint);
        numbers[i] = n;
    }
    return numbers;
}

/// The stream on which the elements are ready. None and, from version 3 on, a missing entry say that nothing is
/// pending; older versions had no word for it, and mean the legacy default stream.
[[nodiscard]] inline stream_token stream_of(PyObject* facts, long long version) {
    reference const given = entry(facts, "stream");
    if (!given) return version >= 3 ? already_ready : stream_token::cuda_legacy_default();
    long long number = 0;
    if (PyBool_Check(given.get()) != 0 || !to_integer(given.get(), number) || number <= 0)
        raise(PyExc_ValueError,
              "__cuda_array_interface__: stream must be None, 1, 2 or a cudaStream_t; 0 is ambiguous (R44)");
    return stream_token::from_cuda_handle(static_cast<std::uintptr_t>(number));
}

/// The entry `stream` to write: None when nothing is pending. Null with a Python error set.
/// \throws error  errc::stream for a null handle, which the interface forbids (R44), and streams of other devices
[[nodiscard]] inline PyObject* entry_of(stream_token ready) {
    if (!ready.names_stream()) return Py_NewRef(Py_None);
    if (!fits(ready, device_type::cuda))
        ferry::detail::fail(errc::stream, "__cuda_array_interface__",
                            message{"the stream is a null handle, or of another device: say the legacy default, the "
                                    "per-thread default stream or a cudaStream_t (R44)"});
    return PyLong_FromUnsignedLongLong(ready.native_handle());
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

/// An interface as it was read; nothing is known yet of where the memory is.
struct array_facts {
    data_type type;                            ///< of one bit where bits were allowed, and are
    std::vector<std::int64_t> shape, strides;  ///< strides in elements; none for compact elements
    void* first;
    bool read_only;
    stream_token ready;
    reference mask;  ///< null when there is none

    [[nodiscard]] bool is_empty() const noexcept { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }
    [[nodiscard]] tensor_view view(device where) const noexcept {
        return {first, type,
                shape, strides.empty() ? strides_view{} : strides_view{strides},
                where, read_only ? flags::read_only : flags::none};
    }
};

/// What an object's `__cuda_array_interface__` says, of any version; nothing when it has none. `bits`: whether typestr
/// may be
/// "<t1", a bit for each element, as masks have it.
/// \throws error_is_set  BufferError: other byte order (R20), types without a DLPack name, strides within elements
///                       (R30); ValueError: what is malformed
[[nodiscard]] inline std::optional<array_facts> read_array_facts(PyObject* x, bool bits = false) {
    reference const facts{PyObject_GetAttrString(x, "__cuda_array_interface__")};
    if (!facts) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw error_is_set{};
        PyErr_Clear();
        return {};
    }
    if (PyDict_Check(facts.get()) == 0) raise(PyExc_ValueError, "__cuda_array_interface__ must be a dict");
    long long version = 0, address = 0;
    if (reference const v = entry(facts.get(), "version"); v && !to_integer(v.get(), version))
        raise(PyExc_ValueError, "__cuda_array_interface__: version must be an integer");
    reference const typestr = entry(facts.get(), "typestr");
    char const* const text =
        typestr && PyUnicode_Check(typestr.get()) != 0 ? PyUnicode_AsUTF8(typestr.get()) : "";
    if (text == nullptr) throw error_is_set{};
    array_facts got{};
    bool const are_bits = bits && (std::strcmp(text, "<t1") == 0 || std::strcmp(text, "|t1") == 0);
    got.type = are_bits ? data_type{type_code::uint, 1} : type_from_text(text);
    reference const extents = entry(facts.get(), "shape");
    if (!extents) raise(PyExc_ValueError, "__cuda_array_interface__ has no shape");
    got.shape = integers_from(extents.get(), "__cuda_array_interface__: shape must be a tuple of integers");
    if (reference const steps = entry(facts.get(), "strides")) {
        got.strides = integers_from(steps.get(), "__cuda_array_interface__: strides must be None or a tuple of integers");
        if (got.strides.size() != got.shape.size())
            raise(PyExc_ValueError, "__cuda_array_interface__: shape and strides differ in length");
        if (are_bits) raise(PyExc_BufferError, "__cuda_array_interface__: bits have no strides: leave them out");
        std::int64_t const bytes = bits_per_element(got.type) / 8;
        for (auto& step : got.strides) {
            if (step % bytes != 0)
                raise(
                    PyExc_BufferError,
                    "__cuda_array_interface__: the strides are no multiples of the element's size (R30): copy the array");
            step /= bytes;
        }
    }
    reference const data = entry(facts.get(), "data");
    bool const is_pair = data && PyTuple_Check(data.get()) != 0 && PyTuple_GET_SIZE(data.get()) == 2;
    reference const pointer{is_pair ? PyNumber_Index(PyTuple_GET_ITEM(data.get(), 0)) : nullptr};
    int const read_only = is_pair ? PyObject_IsTrue(PyTuple_GET_ITEM(data.get(), 1)) : -1;
    if (pointer) address = static_cast<long long>(PyLong_AsUnsignedLongLongMask(pointer.get()));
    if (!pointer || read_only < 0 || PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        raise(PyExc_ValueError, "__cuda_array_interface__: data must be a pair (pointer, read-only)");
    }
    got.first = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    got.read_only = read_only != 0;
    got.ready = stream_of(facts.get(), version);
    got.mask = entry(facts.get(), "mask");
    return got;
}

}  // namespace ferry::inline v0::python::detail
