// ferry: calls of `__dlpack__`: the full request first, then what older producers understand.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>
#include <ferry/python/published.hpp>

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/request.hpp>

#include <optional>

namespace ferry::inline v0::python::detail {

/// Calls `x.__dlpack__` with those arguments that are not null; the result, or null with the producer's error set.
[[nodiscard]] inline reference call_dlpack(PyObject* x, PyObject* version, PyObject* stream, PyObject* dl_device,
                                           PyObject* copy) {
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
    PyObject* keyword_names = count == 1 && version != nullptr ? known.only_max_version : nullptr;
    if (keyword_names == nullptr && count != 0) {
        tuple = reference{PyTuple_New(count)};
        if (!tuple) throw error_is_set{};
        for (Py_ssize_t i = 0; i < count; ++i) {
            Py_INCREF(keywords[i]);
            PyTuple_SET_ITEM(tuple.get(), i, keywords[i]);
        }
        keyword_names = tuple.get();
    }
    if (PyObject* const method = producer_cache::known().method_of(Py_TYPE(x))) {
        Py_INCREF(method);
        reference const held{method};
        return reference{call_python([&] { return PyObject_Vectorcall(method, arguments, 1, keyword_names); })};
    }
    return reference{call_python([&] { return PyObject_VectorcallMethod(known.dlpack, arguments, 1, keyword_names); })};
}

/// Whether ferry copies memory of a device itself, on the consumer's stream, whatever its producer offers: GPU memory
/// that the back end reaches. A producer that copies orders the consumer's stream after its own, and may do so before
/// it queues the copy, as PyTorch does: the consumer would read stale data. For the CPU a producer finishes its copy
/// before it returns (R48), and is asked when the back end does not reach its device.
///
/// \param at  device of the data, as its producer says
/// \param to  device that is requested
/// \param b   back end of the import
template <class BackEnd>
[[nodiscard]] bool is_copied_here(device at, device to, BackEnd& b) {
    return (at.type == device_type::cuda || at.type == device_type::cuda_managed || at.type == device_type::rocm) &&
           (to.type != device_type::cpu || b.reaches(at));
}

/// The ladder: the whole request first (R56); when the signature is too old (TypeError), or the producer cannot copy or
/// move (BufferError, ValueError), a plain one, which leaves copy and device to us (R58); at last a bare call. Other
/// errors, and any after copy=False, are the producer's and go through (R81). `at`: where the producer says its data
/// is. A stream of the wanted device (R48) means nothing to a plain request when the data is elsewhere; for data that
/// stays on the host none is named: NumPy refuses -1 as well. A legacy request names no version (R57). `copied_here`:
/// see is_copied_here.
[[nodiscard]] inline reference ask(PyObject* x, request req, std::optional<device> at, bool copied_here) {
    if (copied_here) {
        req.device.reset();
        if (req.copy == copy_policy::always) req.copy = copy_policy::if_needed;
    }
    bool const stays_on_host =
        at && at->type == device_type::cpu && (!req.device || req.device->type == device_type::cpu);
    reference const stream = stays_on_host ? reference{} : to_number(req.stream);
    bool const is_known_there = !at || (at->type != device_type::cpu &&
                                        (!req.stream.names_stream() || orders(req.stream.family(), at->type)));
    PyObject* const plain_stream = is_known_there ? stream.get() : nullptr;
    reference dl_device;
    if (req.device) {
        dl_device =
            reference{Py_BuildValue("(ii)", static_cast<int>(req.device->type), static_cast<int>(req.device->id))};
        if (!dl_device) throw error_is_set{};
    }
    PyObject* const copy = req.copy == copy_policy::if_needed ? nullptr
                           : req.copy == copy_policy::always  ? Py_True
                                                               : Py_False;
    reference other;
    if (req.max_version != version::current) {
        other = reference{Py_BuildValue("(II)", req.max_version.major, req.max_version.minor)};
        if (!other) throw error_is_set{};
    }
    PyObject* const version = req.max_version.is_legacy() ? nullptr : other ? other.get() : names().version;
    reference result = call_dlpack(x, version, copied_here ? plain_stream : stream.get(), dl_device.get(), copy);
    if (result) return result;
    bool const too_old = PyErr_ExceptionMatches(PyExc_TypeError) != 0;
    bool const asked_much = copy == Py_True || (dl_device && copy != Py_False);
    bool const unable = PyErr_ExceptionMatches(PyExc_BufferError) != 0 || PyErr_ExceptionMatches(PyExc_ValueError) != 0;
    if (!too_old && !(unable && asked_much)) throw error_is_set{};
    if (copy != nullptr || dl_device) {
        PyErr_Clear();
        result = call_dlpack(x, version, plain_stream, nullptr, nullptr);
        if (result) return result;
        if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw error_is_set{};
    }
    if (version == nullptr) throw error_is_set{};  // the bare call was that one
    PyErr_Clear();
    result = call_dlpack(x, nullptr, plain_stream, nullptr, nullptr);
    if (!result) throw error_is_set{};
    return result;
}

}  // namespace ferry::inline v0::python::detail
