// ferry: calls `__dlpack__` with all keywords first, then with the keywords that older producers support.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/detail/published.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/exchange/request.hpp>

#include <optional>

namespace FERRY_NAMESPACE::python::detail {

/// Calls `x.__dlpack__`. Returns null with the error of the producer set.
[[nodiscard]] FERRY_NOINLINE inline reference call_method(PyObject* x, PyObject* const* arguments, PyObject* keywords) {
    if (PyObject* const method = producer_cache::known().method_of(Py_TYPE(x))) {
        Py_INCREF(method);
        reference const held{method};
        return reference{call_python([&] { return PyObject_Vectorcall(method, arguments, 1, keywords); })};
    }
    return reference{call_python([&] { return PyObject_VectorcallMethod(names().dlpack, arguments, 1, keywords); })};
}

/// Calls `x.__dlpack__` with the arguments that are not null.
[[nodiscard]] FERRY_COLD inline reference call_dlpack(PyObject* x, PyObject* version, PyObject* stream,
                                                      PyObject* dl_device, PyObject* copy) {
    auto const& known = names();
    PyObject* arguments[5] = {x, nullptr, nullptr, nullptr, nullptr};
    PyObject* keywords[4] = {};
    Py_ssize_t count = 0;
    auto const add = [&](PyObject* name, PyObject* value) {
        if (value == nullptr) return;
        keywords[count] = name;
        arguments[++count] = value;
    };
    add(known.max_version, version);
    add(known.stream, stream);
    add(known.dl_device, dl_device);
    add(known.copy, copy);
    reference tuple;
    PyObject* keyword_names = nullptr;
    if (count != 0) {
        tuple = reference{PyTuple_New(count)};
        if (!tuple) throw error_is_set{};
        for (Py_ssize_t i = 0; i < count; ++i) {
            Py_INCREF(keywords[i]);
            set_item(tuple.get(), i, keywords[i]);
        }
        keyword_names = tuple.get();
    }
    return call_method(x, arguments, keyword_names);
}

/// Returns whether ferry, not the producer, copies the memory of a device, on the consumer's stream: true for GPU
/// memory, unless the CPU is requested and the back end does not support the device. A producer may make the consumer's
/// stream wait before it queues the copy, as PyTorch does; the consumer would then read stale data. A copy to the CPU
/// is complete when the producer returns (R48).
[[nodiscard]] inline bool is_copied_here(device at, device to, bool is_reached) {
    return (at.type == device_type::cuda || at.type == device_type::cuda_managed || at.type == device_type::rocm) &&
           (to.type != device_type::cpu || is_reached);
}

/// Returns whether a request asks for nothing but the current version.
[[nodiscard]] inline bool is_plain(request const& req) noexcept {
    return !req.device && req.copy == copy_policy::if_needed && req.stream.is_none() &&
           req.max_version == version::current;
}

/// Requests a capsule from `__dlpack__`. The first call passes the whole request (R56). If this call raises a TypeError
/// (an older signature), or refuses a copy or another device with a BufferError or ValueError (PyTorch raises an
/// AssertionError for the stream of another device), the second call omits `copy` and `dl_device`, and the caller makes
/// the copy (R58). After another TypeError, a third call also omits `max_version`. Other errors are raised unchanged,
/// as is a BufferError or ValueError after copy=False (R81).
///
/// The stream belongs to the requested device (R48); calls without `dl_device` pass the stream only if `at` has streams
/// of that type. No stream is passed to a producer on the host, not even -1, which NumPy rejects. For GPU memory
/// without a stream in the request, the default stream of R44 and R45 is passed, because PyTorch treats an omitted
/// stream as -1; producers without the keyword are called without it. A legacy request has no `max_version` (R57).
[[nodiscard]] FERRY_COLD inline reference request_whole(PyObject* x, request const& given,
                                                        std::optional<device> const& at, bool copied_here) {
    request req = given;
    bool const is_implied = copied_here && at && req.stream.is_none();
    if (copied_here) {
        req.device.reset();
        if (req.copy == copy_policy::always) req.copy = copy_policy::if_needed;
    }
    if (is_implied) req.stream = ferry::detail::default_stream(*at);
    bool const stays_on_host =
        at && at->type == device_type::cpu && (!req.device || req.device->type == device_type::cpu);
    reference const stream = stays_on_host ? reference{} : to_number(req.stream);
    bool const is_valid_there =
        !at || (at->type != device_type::cpu && (!req.stream.names_stream() || orders(req.stream.family(), at->type)));
    PyObject* const plain_stream = is_valid_there ? stream.get() : nullptr;
    reference dl_device;
    if (req.device) {
        dl_device =
            reference{Py_BuildValue("(ii)", static_cast<int>(req.device->type), static_cast<int>(req.device->id))};
        if (!dl_device) throw error_is_set{};
    }
    PyObject* const copy = req.copy == copy_policy::if_needed ? nullptr
                           : req.copy == copy_policy::always  ? Py_True
                                                              : Py_False;
    reference older_version;
    if (req.max_version != version::current) {
        older_version = reference{Py_BuildValue("(II)", req.max_version.major, req.max_version.minor)};
        if (!older_version) throw error_is_set{};
    }
    PyObject* const version = req.max_version.is_legacy() ? nullptr
                              : older_version             ? older_version.get()
                                                          : names().version;
    reference result = call_dlpack(x, version, copied_here ? plain_stream : stream.get(), dl_device.get(), copy);
    if (result) return result;
    bool const is_too_old = PyErr_ExceptionMatches(PyExc_TypeError) != 0;
    bool const is_demanding = copy == Py_True || (dl_device && copy != Py_False);
    bool const is_refused = PyErr_ExceptionMatches(PyExc_BufferError) != 0 ||
                            PyErr_ExceptionMatches(PyExc_ValueError) != 0 ||
                            (dl_device && PyErr_ExceptionMatches(PyExc_AssertionError) != 0);
    if (!is_too_old && !(is_refused && is_demanding)) throw error_is_set{};
    if (copy != nullptr || dl_device) {
        PyErr_Clear();
        result = call_dlpack(x, version, plain_stream, nullptr, nullptr);
        if (result) return result;
        if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw error_is_set{};
    }
    if (version != nullptr) {
        PyErr_Clear();
        result = call_dlpack(x, nullptr, plain_stream, nullptr, nullptr);
    }
    if (!result && is_implied && plain_stream != nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
        PyErr_Clear();
        result = call_dlpack(x, nullptr, nullptr, nullptr, nullptr);
    }
    if (!result) throw error_is_set{};
    return result;
}

/// Requests a capsule from `__dlpack__` like request_whole. A request for nothing but the current version passes only
/// `max_version`.
[[nodiscard]] FERRY_NOINLINE inline reference request_capsule(PyObject* x, request const& req,
                                                              std::optional<device> const& at, bool copied_here) {
    if (!is_plain(req) || copied_here) return request_whole(x, req, at, copied_here);
    PyObject* const arguments[] = {x, names().version};
    reference result = call_method(x, arguments, names().only_max_version);
    if (result) return result;
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw error_is_set{};
    PyErr_Clear();
    result = call_method(x, arguments, nullptr);
    if (!result) throw error_is_set{};
    return result;
}

}  // namespace FERRY_NAMESPACE::python::detail
