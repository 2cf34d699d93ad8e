// ferry: imports from Python: whatever a library of any age offers, asked for in the order that costs least.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/back_end.hpp>
#include <ferry/python/capsule.hpp>
#include <ferry/python/detail/ask.hpp>
#include <ferry/python/detail/torch_tensor.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/published.hpp>

#include <ferry/exchange/from_dlpack.hpp>

#include <concepts>
#include <optional>
#include <source_location>
#include <utility>

namespace ferry::inline v0::python {
namespace detail {

/// A tensor as it came, and the stream on which it is ready: none when the handshake has ordered it already.
struct imported {
    managed_tensor tensor;
    std::optional<stream_token> ready_on;
};

/// The producer's current stream on a device, as its table tells it.
[[nodiscard]] inline stream_token current_stream_of(abi::exchange_api const& api, device where) {
    void* stream = nullptr;
    if (api.current_work_stream(where.to_abi().device_type, where.id, &stream) != 0) throw error_is_set{};
    auto const handle = reinterpret_cast<std::uintptr_t>(stream);
    // NULL is the legacy default stream of CUDA here, ROCm's default stream, and only here; on any other device it says
    // that nothing is pending (R76).
    if (uses_cuda_streams(where.type))
        return handle != 0 ? stream_token::from_cuda_handle(handle) : stream_token::cuda_legacy_default();
    if (uses_rocm_streams(where.type))
        return handle != 0 ? stream_token::rocm_handle(handle) : stream_token::rocm_default();
    return handle != 0 ? stream_token::native(where.type, handle) : already_ready;
}

/// The tensor of an object whose type has a table; nothing for objects without one. R73, R76: no synchronisation
/// happens in there; the tensor is ready on the producer's current stream.
[[nodiscard]] inline std::optional<imported> import_by_table(PyObject* object) {
    auto const* const table = find_exchange_api(object);
    if (table == nullptr) return {};
    auto const& api = *table;
    DLManagedTensorVersioned* raw = nullptr;
    if (call_python([&] { return api.managed_tensor_from_py_object_no_sync(object, &raw); }) != 0) throw error_is_set{};
    imported got{ferry::from_dlpack(raw), already_ready};
    device const where = got.tensor.device();
    if (where.type != device_type::cpu) got.ready_on = current_stream_of(api, where);
    return got;
}

/// The back end makes a device current for a scope, as some producers want it before they are asked (R42). It does what
/// it can: whether the device is there shows when the tensor has come.
template <class BackEnd>
concept selects_device = requires(BackEnd& b, device where) { b.make_current(where); };

/// The back end knows one more protocol, for objects without `__dlpack__`: `fetch_otherwise(PyObject*)` gives an
/// imported, or nothing for objects that do not have it either.
template <class BackEnd>
concept knows_other_protocol = requires(BackEnd& b, PyObject* x) {
    { b.fetch_otherwise(x) } -> std::same_as<std::optional<imported>>;
};

/// Fetches a tensor from an object with `__dlpack__`, or from a raw capsule (R64). Types with a table and nothing else
/// are asked by it, and leave what it cannot say to us. `at`: where the producer says its data is, if it was asked.
template <class BackEnd>
[[nodiscard]] imported fetch(PyObject* x, request const& req, [[maybe_unused]] BackEnd& b,
                            std::optional<device> at = {}) {
    if (PyCapsule_CheckExact(x) != 0) {  // made without a stream: ready on the default stream (R44)
        imported got{from_capsule(x), std::nullopt};
        got.ready_on = ferry::detail::ready_after({}, got.tensor.device());
        return got;
    }
    if (!has_dlpack(x)) {
        if (auto got = import_by_table(x)) return std::move(*got);
        if constexpr (knows_other_protocol<BackEnd>)
            if (PyType_Check(x) == 0)
                if (auto got = b.fetch_otherwise(x)) return std::move(*got);
        PyErr_Format(PyExc_TypeError,
                     "from_dlpack() wants an object with __dlpack__, or a capsule of one; %.200s has none",
                     Py_TYPE(x)->tp_name);
        throw error_is_set{};
    }
    reference const capsule = ask(x, req, at, at && is_copied_here(*at, req.device.value_or(*at), b));
    return {from_capsule(capsule.get()), std::nullopt};
}

/// Where an object says its data is (R37): a hint, since the capsule is right when they disagree (R38). Nothing when it
/// says nothing that can be understood.
[[nodiscard]] inline std::optional<device> dlpack_device_of(PyObject* x) {
    reference pair{call_python([&] { return PyObject_CallMethodNoArgs(x, names().dlpack_device); })};
    long long type = 0, id = 0;
    if (!pair && PyErr_ExceptionMatches(PyExc_Exception) == 0) throw error_is_set{};
    PyErr_Clear();
    if (!pair || !to_pair(pair.get(), type, id) || type < 0 || type > abi::device::ascend || id < 0 || id > INT32_MAX)
        return {};
    return device{static_cast<device_type>(static_cast<std::int32_t>(type)), static_cast<std::int32_t>(id)};
}

/// The copy that a producer makes of memory on a GPU, when it shares none of it: after its refusal, whose error is set.
/// Such a copy is queued on the producer's current stream, or on the one that it was told; the result is ready, since
/// both have been waited for. Where the producer tells no current stream the copy is refused.
template <class BackEnd>
[[nodiscard]] imported copy_by_producer(PyObject* x, request const& told, device at, BackEnd& b) {
    std::optional<stream_token> theirs;
    {
        kept_error const refusal;
        if (b.reaches(at) && has_dlpack(x))
            if (auto const* const table = find_exchange_api(x)) theirs = current_stream_of(*table, at);
    }
    if (!theirs) {
        replace_error("from_dlpack: the producer does not share this memory, and does not tell the stream on which it "
                      "would copy it: copy it with the producer's library, synchronise, and import the copy");
        throw error_is_set{};
    }
    PyErr_Clear();
    stream_token const ours = ferry::detail::ready_after(told, at);
    reference const stream =
        told.stream.names_stream() && !orders(told.stream.family(), at.type) ? reference{} : to_number(told.stream);
    reference const capsule = call_dlpack(x, names().version, stream.get(), nullptr, Py_True);
    if (!capsule) throw error_is_set{};
    imported got{from_capsule(capsule.get()), already_ready};
    gil_releasing_back_end const patient{b};
    patient.wait(*theirs);
    if (ours.names_stream() && ours != *theirs) patient.wait(ours);
    return got;
}

/// Asks the producer on its own device (R42), with the stream on which T will use the data (R43); `told` is the request
/// as the producer heard it. No stream goes to pinned memory, which PyTorch calls memory of the CPU: its producer then
/// waits (R49).
template <class T, class BackEnd>
[[nodiscard]] imported ask_for(PyObject* x, request& told, BackEnd& b) {
    bool const wants_copy = told.device || told.copy == copy_policy::always, is_capsule = PyCapsule_CheckExact(x) != 0;
    if (!told.device && told.copy == copy_policy::if_needed && !is_capsule)
        if (auto got = import_by_table(x)) return std::move(*got);
    bool const asks_where = has_current_stream<T> || selects_device<BackEnd> || wants_copy || !told.stream.is_none();
    auto const where = asks_where && !is_capsule ? dlpack_device_of(x) : std::nullopt;
    if (!where) return fetch(x, told, b);
    device const target = told.device.value_or(*where);
    bool const copied_here = is_copied_here(*where, target, b);
    auto const go = [&]() -> imported {
        // A table is asked for copies, too: ferry makes them.
        if (copied_here)
            if (auto got = import_by_table(x)) return std::move(*got);
        if (is_known(target.type) && (copied_here || target.type != device_type::cuda_host))
            told = ferry::detail::with_stream<T>(told, target);
        return fetch(x, told, b, where);
    };
    auto const go_there = [&]() -> imported {
        try {
            return go();
        } catch (error_is_set const&) {
            bool const wants_one = copied_here && wants_copy && told.copy != copy_policy::never;
            if (!wants_one || PyErr_ExceptionMatches(PyExc_BufferError) == 0) throw;
        }
        return copy_by_producer(x, told, *where, b);
    };
    if constexpr (selects_device<BackEnd>) {
        if (where->type == device_type::cuda) {
            [[maybe_unused]] auto const current = b.make_current(*where);
            return go_there();
        }
    }
    return go_there();
}

/// The same, with what PyTorch cannot export refused in ferry's words.
template <class T, class BackEnd>
[[nodiscard]] imported fetch_for(PyObject* x, request& told, BackEnd& b) {
    published const type = published_by(Py_TYPE(x));
    if (!type.is_torch) return ask_for<T>(x, told, b);
    require_plain(x, type);
    if (told.device || told.copy != copy_policy::if_needed)
        if (!type.overrides_torch) require_storage(x);
    std::optional<imported> got;
    try {
        got.emplace(ask_for<T>(x, told, b));
    } catch (error_is_set const&) {
        explain_refusal(x);
        throw;
    }
    require_memory(x, got->tensor.view());
    auto const code = got->tensor.dtype().code;
    if (code == type_code::complex || code == type_code::bcomplex) require_unconjugated(x);
    return std::move(*got);
}

}  // namespace detail

/// Imports a Python object as a C++ array: asks the producer for what the request says, copies itself what the producer
/// cannot, validates, and gives the tensor to array_traits<T>::adopt (R42, R43, R56–R58).
///
/// The GIL must be held; waits and long copies give it away. Whatever is taken is released exactly once on failure;
/// what is not taken is left as it was.
///
/// \throws error_is_set  the producer's own errors, TypeError, ValueError;  error  as ferry::from_dlpack
template <class T, class BackEnd = host_back_end const&>
[[nodiscard]] T from_python(PyObject* x, request req, BackEnd&& b = host_only) {
    auto const where = std::source_location::current();
    detail::imported got = detail::fetch_for<T>(x, req, b);
    if (req.copy == copy_policy::never && got.tensor.is_copied() && PyCapsule_CheckExact(x) == 0)
        ferry::detail::fail(errc::copy_needed, "from_dlpack",
                            message{"copy=False was asked for, and the producer copied (R54)"}, where);
    auto const place = got.tensor.device();
    if constexpr (std::same_as<T, managed_tensor>) {
        bool const as_it_comes = !req.device && req.copy == copy_policy::if_needed && req.stream.is_none();
        if (as_it_comes && place.type == device_type::cpu) return std::move(got.tensor);  // nothing is owed
    }
    stream_token const ready = got.ready_on ? *got.ready_on : ferry::detail::ready_after(req, place);
    req = ferry::detail::with_stream<T>(req, place);
    detail::gil_releasing_back_end patient{b};
    return ferry::detail::finish_import<T>(std::move(got.tensor), req, ready, patient, where);
}

}  // namespace ferry::inline v0::python
