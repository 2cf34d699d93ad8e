// ferry: converts the Python arguments of `__dlpack__` and from_dlpack.
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/base/version.hpp>
#include <ferry/exchange/request.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// Names for attribute look-ups, interned once and never released. The constructor requires the GIL.
struct interned_names {
    PyObject* stream = PyUnicode_InternFromString("stream");
    PyObject* max_version = PyUnicode_InternFromString("max_version");
    PyObject* dl_device = PyUnicode_InternFromString("dl_device");
    PyObject* copy = PyUnicode_InternFromString("copy");
    PyObject* device = PyUnicode_InternFromString("device");
    PyObject* dlpack = PyUnicode_InternFromString("__dlpack__");
    PyObject* dlpack_device = PyUnicode_InternFromString("__dlpack_device__");
    PyObject* requires_grad = PyUnicode_InternFromString("requires_grad");
    PyObject* is_neg = PyUnicode_InternFromString("is_neg");
    PyObject* is_conj = PyUnicode_InternFromString("is_conj");
    PyObject* is_meta = PyUnicode_InternFromString("is_meta");
    PyObject* is_quantized = PyUnicode_InternFromString("is_quantized");
    PyObject* untyped_storage = PyUnicode_InternFromString("untyped_storage");
    PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
    PyObject* nbytes = PyUnicode_InternFromString("nbytes");
#if defined(Py_LIMITED_API) || defined(Py_GIL_DISABLED)
    PyObject* mro = PyUnicode_InternFromString("__mro__");
#endif
#if defined(Py_LIMITED_API)
    PyObject* dict = PyUnicode_InternFromString("__dict__");
    PyObject* dictoffset = PyUnicode_InternFromString("__dictoffset__");
#endif
    PyObject* torch_module = PyUnicode_InternFromString("torch._C");
    PyObject* without_torch_function = PyUnicode_InternFromString("_disabled_torch_function_impl");
    PyObject* get = PyUnicode_InternFromString("__get__");
    PyObject* exchange_api = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
    PyObject* exchange_api_1_2 = PyUnicode_InternFromString("__c_dlpack_exchange_api__");
    PyObject* version = Py_BuildValue("(II)", version::current.major, version::current.minor);
    PyObject* only_max_version = max_version != nullptr ? PyTuple_Pack(1, max_version) : nullptr;
};

/// Sets `cached`, which all imports and exports share, unless another thread has set it.
/// \throws error_is_set  MemoryError; ImportError in a sub-interpreter, whose strings do not outlive it
FERRY_COLD inline void make_names(atomic_pointer<interned_names const>& cached) {
    require_main_interpreter();
    auto const* const made = new interned_names const {};
    PyObject* all[sizeof *made / sizeof(PyObject*)];
    std::memcpy(all, made, sizeof *made);
    bool is_complete = true;
    for (PyObject* const name : all) is_complete = is_complete && name != nullptr;
    if (is_complete && cached.set_once(made) == made) return;
    for (PyObject* const name : all) Py_XDECREF(name);
    delete made;
    if (!is_complete) throw error_is_set{};
}
[[nodiscard]] FERRY_NOINLINE FERRY_HIDDEN inline interned_names const& names() {
    static constinit atomic_pointer<interned_names const> cached;
    if (cached.get() == nullptr) make_names(cached);
    return *cached.get();
}

[[nodiscard]] inline bool is_named(PyObject* name, PyObject* interned) noexcept {
    return name == interned || (PyUnicode_Check(name) != 0 && PyUnicode_Compare(name, interned) == 0);
}

/// Calls `__index__`.
/// \return        the integer; null, without a Python error, if the object is not one
[[nodiscard]] FERRY_COLD inline reference index_of(PyObject* object) {
    reference index{call_python([&] { return PyNumber_Index(object); })};
    if (index) return index;
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw error_is_set{};
    PyErr_Clear();
    return index;
}

/// Converts an int, or an object with `__index__`, to 64 bits; clamps values out of range.
/// \return        false, without a Python error, if the object is not an integer
[[nodiscard]] FERRY_NOINLINE inline bool to_integer(PyObject* object, long long& out) {
    if (PyLong_Check(object) == 0) {
        reference const index = index_of(object);
        return index && to_integer(index.get(), out);
    }
    int overflow = 0;
    out = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) out = overflow > 0 ? INT64_MAX : INT64_MIN;
    return true;
}

/// Converts a tuple or list of two integers. Holds references to both items, because `__index__` of the first may clear
/// the list.
/// \return        false, without a Python error, if the object is not such a pair
[[nodiscard]] FERRY_NOINLINE inline bool to_pair(PyObject* object, long long& first, long long& second) {
    if ((PyTuple_Check(object) == 0 && PyList_Check(object) == 0) || size_of(object) != 2) return false;
    reference const one{item_of(object, 0)}, two{item_of(object, 1)};
#if defined(Py_GIL_DISABLED)
    if (!one || !two) return false;
#endif
    return to_integer(one.get(), first) && to_integer(two.get(), second);
}

/// Converts a pair (type, id) to a device.
/// \return      device; its type and id are not checked
[[nodiscard]] FERRY_NOINLINE inline device device_from_pair(PyObject* pair, char const* name,
                                                            ferry::detail::sentence text) {
    long long type = 0, id = 0;
    if (!to_pair(pair, type, id) || type != static_cast<std::int32_t>(type) || id != static_cast<std::int32_t>(id))
        raise(PyExc_ValueError, name, text);
    return {static_cast<device_type>(static_cast<std::int32_t>(type)), static_cast<std::int32_t>(id)};
}

/// Converts `max_version` (R57).
/// \return        version; version::legacy for None and for a major version below 1
[[nodiscard]] inline version version_from(PyObject* object) {
    if (object == Py_None) return version::legacy;
    long long major = 0, minor = 0;
    if (!to_pair(object, major, minor))
        raise(PyExc_TypeError, "max_version", " must be None or tuple[int, int]: (major, minor)");  // as in NumPy
    if (minor < 0) raise(PyExc_ValueError, "max_version", " must not have a negative minor version");
    if (major < 1) return version::legacy;
    auto const clamp = [](long long n) { return n > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(n); };
    return {clamp(major), clamp(minor)};
}

/// Converts `copy` (R54).
[[nodiscard]] inline copy_policy copy_from(PyObject* object) {
    if (object == Py_None) return copy_policy::if_needed;
    if (object == Py_True) return copy_policy::always;
    if (object == Py_False) return copy_policy::never;
    raise(PyExc_ValueError, "copy", " must be None, True or False");
}

/// Converts `stream` to the number of a stream, whose meaning depends on the device (R44–R46).
/// \return        the number; std::nullopt for None
[[nodiscard]] FERRY_NOINLINE inline std::optional<long long> stream_number(PyObject* object) {
    if (object == Py_None) return {};
    long long number = 0;
    if (PyBool_Check(object) != 0 || !to_integer(object, number))
        raise(PyExc_ValueError, "stream", " must be None or an integer");
    return number;
}

/// Converts the number of a stream to a token (R44–R46).
[[nodiscard]] FERRY_NOINLINE inline stream_token stream_from(std::optional<long long> given, device_type type) {
    if (!given) return {};
    long long const number = *given;
    if (number == -1) return stream_token::no_sync();
    if (number < -1)
        raise(PyExc_ValueError, "stream", " must not be below -1: pass None, -1 or the number of a stream");
    if (number == INT64_MAX)  // clamped, or the largest value
        raise(PyExc_ValueError, "stream", " is larger than an address: pass a cudaStream_t as an integer");
    auto const handle = static_cast<std::uintptr_t>(number);
    if (uses_cuda_streams(type)) {
        if (number == 0)
            raise(PyExc_ValueError, "stream",
                  " 0 is ambiguous: pass 1 for the legacy or 2 for the per-thread default stream");
        return stream_token::from_cuda_handle(handle);
    }
    if (uses_rocm_streams(type)) {
        if (number == 1 || number == 2)
            raise(PyExc_ValueError, "stream", ": ROCm has no streams 1 and 2: pass 0 for the default stream");
        return number == 0 ? stream_token::rocm_default() : stream_token::rocm_handle(handle);
    }
    if (!uses_streams(type)) raise(PyExc_ValueError, "stream", " must be None or -1: CPU memory has no streams");
    return stream_token::native(type, handle);
}

/// Converts a stream to the number that `__dlpack__` expects.
/// \return       new reference to an integer, -1 for no_sync(); null, which represents None, for a token without a
///               stream
[[nodiscard]] inline reference to_number(stream_token token) {
    if (token.is_none()) return {};
    return reference{token.is_no_sync() ? PyLong_FromLong(-1) : PyLong_FromUnsignedLongLong(token.native_handle())};
}

}  // namespace detail

/// Converts a Python object to a device. Requires the GIL.
///
/// \param object  a name ("cpu", "cuda", "cuda:1", "cuda_host", "cuda_managed", "rocm", …), a pair (type, id), or an
///                object with `__dlpack_device__`
/// \return        device; std::nullopt with a Python error set: ValueError, or an exception raised by
///                `__dlpack_device__` or `__index__`. The type and id of a pair are not checked
[[nodiscard]] FERRY_COLD inline std::optional<device> as_device(PyObject* object) noexcept {
    constexpr ferry::detail::sentence error_text =
        " must be a name such as 'cpu' or 'cuda:1', a pair (type, id), or an object with __dlpack_device__";
    try {
        detail::require_main_interpreter();
        if (PyUnicode_Check(object) != 0) {
            Py_ssize_t size = 0;
            char const* text = PyUnicode_AsUTF8AndSize(object, &size);
            if (text == nullptr) return {};
            if (std::strlen(text) != static_cast<std::size_t>(size)) raise(PyExc_ValueError, "device", error_text);
            for (std::int32_t n = abi::device::cpu; n <= abi::device::ascend; ++n) {
                auto const type = static_cast<device_type>(n);
                auto const length = std::strlen(name(type));
                if (!is_known(type) || std::strncmp(text, name(type), length) != 0) continue;
                if (text[length] == '\0') return device{type, 0};
                if (text[length] != ':') continue;
                char const* digit = text + length + 1;
                std::int32_t id = 0;
                int digits = 0;
                for (; *digit >= '0' && *digit <= '9' && digits < 9; ++digit, ++digits) id = 10 * id + (*digit - '0');
                if (digits > 0 && *digit == '\0') return device{type, id};
            }
            raise(PyExc_ValueError, "device", error_text);
        }
        if (PyTuple_Check(object) != 0 || PyList_Check(object) != 0)
            return detail::device_from_pair(object, "device", error_text);
        if (PyType_Check(object) != 0) raise(PyExc_ValueError, "device", error_text);  // a type instead of an object
        reference const method{
            detail::call_python([&] { return PyObject_GetAttr(object, detail::names().dlpack_device); })};
        if (!method) {
            if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return {};
            PyErr_Clear();
            raise(PyExc_ValueError, "device", error_text);
        }
        reference const pair{detail::call_python([&] { return PyObject_CallNoArgs(method.get()); })};
        if (!pair) return {};
        return detail::device_from_pair(pair.get(), "__dlpack_device__", " did not return a pair of integers");
    } catch (...) {
        translate_exception();
        return {};
    }
}

}  // namespace FERRY_NAMESPACE::python
