// ferry: the engine of python/import.hpp.
#pragma once

#include <ferry/python/import.hpp>

#include <ferry/python/detail/call_dlpack.hpp>
#include <ferry/python/detail/numpy_array.hpp>
#include <ferry/python/detail/published.hpp>
#include <ferry/python/detail/torch_tensor.hpp>

#include <exception>
#include <new>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// Returns the current stream of a producer, from its exchange table (R76). NULL is converted to the legacy default
/// stream of CUDA, the default stream of ROCm, or already_ready for other device types.
[[nodiscard]] inline stream_token current_stream_of(abi::exchange_api const& api, device dev) {
    void* stream = nullptr;
    if (api.current_work_stream(dev.to_abi().device_type, dev.id, &stream) != 0) throw error_is_set{};
    auto const handle = reinterpret_cast<std::uintptr_t>(stream);
    if (uses_cuda_streams(dev.type))
        return handle != 0 ? stream_token::from_cuda_handle(handle) : stream_token::cuda_legacy_default();
    if (uses_rocm_streams(dev.type))
        return handle != 0 ? stream_token::rocm_handle(handle) : stream_token::rocm_default();
    return handle != 0 ? stream_token::native(dev.type, handle) : already_ready;
}

/// Imports an object through an exchange table; see import_by_table.
FERRY_NOINLINE inline void call_table(PyObject* x, abi::exchange_api const& api, imported& got) {
    DLManagedTensorVersioned* raw = nullptr;
    if (call_python([&] { return api.managed_tensor_from_py_object_no_sync(x, &raw); }) != 0) throw error_is_set{};
    got.tensor = ferry::detail::take<true>(raw, {"ferry::from_dlpack", in_python});
    device const dev = got.tensor.device();
    if (uses_streams(dev.type)) got.ready_on = current_stream_of(api, dev);
}

/// Imports an object through its exchange table, without synchronisation: the tensor is ready on the current stream of
/// the producer (R73, R76). Returns false if there is no table.
[[nodiscard]] inline bool import_by_table(PyObject* x, published const& type, imported& got) {
    auto const* const table = type.table ? find_exchange_api(x, type) : nullptr;
    if (table != nullptr) call_table(x, *table, got);
    return table != nullptr;
}

/// Imports an object without `__dlpack__`, through its exchange table or the other protocol of the back end.
inline void import_without_dlpack(PyObject* x, published const& type, importer const& by, imported& got) {
    if (import_by_table(x, type, got)) return;
    if (by.its.import_other != nullptr && PyType_Check(x) == 0) by.its.import_other(by.back_end, x, got);
}

/// Returns the device that `__dlpack_device__` reports (R37), if it reports one.
[[nodiscard]] FERRY_NOINLINE inline std::optional<device> dlpack_device_of(PyObject* x) {
    reference const pair = call_method_of(x, names().dlpack_device);
    if (!pair) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw error_is_set{};
        PyErr_Clear();
        return {};
    }
    long long type = 0, id = 0;
    if (!to_pair(pair.get(), type, id) || type < 0 || type > abi::device::ascend || id < 0 || id > INT32_MAX) return {};
    return device{static_cast<device_type>(static_cast<std::int32_t>(type)), static_cast<std::int32_t>(id)};
}

/// Returns whether the producer may copy the data: the request asks for a copy, or names a device and allows one.
[[nodiscard]] inline bool may_copy(request const& req) {
    return req.copy == copy_policy::always || (req.device && req.copy != copy_policy::never);
}

/// Replaces the refusal of a producer to share, after which no copy is possible.
[[noreturn]] FERRY_COLD inline void fail_uncopied() {
    replace_error("from_dlpack",
                  ": the producer does not share this memory, and the stream on which it would copy is "
                  "unknown: copy it with the producer's library, synchronise, and import the copy");
    throw error_is_set{};
}

template <class BackEnd>
void imports_through<BackEnd>::copy_by_producer(BackEnd const& b, PyObject* x, published const& type,
                                                request const& req, device at, imported& got) {
    std::optional<stream_token> current;
    if (b.reaches(at)) {
        kept_error const refusal;
        if (auto const* const table = find_exchange_api(x, type)) current = current_stream_of(*table, at);
    }
    if (!current) fail_uncopied();
    PyErr_Clear();
    stream_token const passed = ferry::detail::ready_after(req, at);
    reference const stream =
        req.stream.names_stream() && !orders(req.stream.family(), at.type) ? reference{} : to_number(req.stream);
    reference const capsule = call_dlpack(x, names().version, stream.get(), nullptr, Py_True);
    if (!capsule) throw error_is_set{};
    got = {consume_capsule(capsule.get(), got.assumed)};
    gil_releasing_back_end const releasing{b};
    ferry::detail::reporter const r{"from_dlpack", in_python};
    static_cast<void>(ferry::detail::wait_for(releasing, *current, r));
    if (passed != *current) static_cast<void>(ferry::detail::wait_for(releasing, passed, r));
}

/// Calls the producer for import_by_dlpack, with the device of the data current.
FERRY_NOINLINE inline void ask_producer(PyObject* x, published const& type, request const& req,
                                        std::optional<device> const& at, bool copied_here, importer const& by,
                                        imported& got) {
    try {
        if (copied_here && import_by_table(x, type, got)) return;
        reference const capsule = request_capsule(x, req, at, copied_here);
        got.tensor = consume_capsule(capsule.get(), got.assumed);
        got.ready_on = ferry::detail::ready_after(req, got.tensor.device());
        return;
    } catch (error_is_set const&) {
        if (!copied_here || !may_copy(req) || PyErr_ExceptionMatches(PyExc_BufferError) == 0) throw;
    }
    if (by.its.copy_by_producer == nullptr) fail_uncopied();
    by.its.copy_by_producer(by, x, type, req, *at, got);
}

/// Imports an object through `__dlpack__`, or through its exchange table if ferry makes the copies (see
/// is_copied_here). The device of the data is current during the call (R42), and the producer receives the stream on
/// which the consumer uses the data (R43).
FERRY_NOINLINE inline void import_by_dlpack(PyObject* x, published const& type, request const& given,
                                            std::optional<device> const& at, importer const& by, imported& got) {
    device const target = given.device.value_or(at.value_or(cpu));
    bool const is_reached = at && by.its.reaches != nullptr && by.its.reaches(by.back_end, *at);
    bool const copied_here = at && is_copied_here(*at, target, is_reached);
    // No stream is passed for pinned memory, which PyTorch exports as CPU memory: the producer then waits (R49).
    bool const adds_stream = by.its.current_stream != nullptr && at && is_known(target.type) &&
                             (copied_here || target.type != device_type::cuda_host);
    request changed;
    if (adds_stream) changed = with_stream(by, given, target);
    request const& req = adds_stream ? changed : given;
    auto ask = [&] { ask_producer(x, type, req, at, copied_here, by, got); };
    if (by.its.select == nullptr) return ask();
    by.its.select(by.back_end, at.value_or(cpu), [](void* call) { (*static_cast<decltype(ask)*>(call))(); }, &ask);
}

/// Returns whether the tensor is ready on the stream that was passed to the producer: for GPU memory only if the stream
/// belongs to that GPU, otherwise always.
[[nodiscard]] inline bool is_ordered(device actual, std::optional<device> announced, std::optional<device> requested) {
    if (actual.type != device_type::cuda && actual.type != device_type::rocm) return true;
    return announced && (is_same_device(actual, *announced) ||
                         (announced->type == device_type::cpu && requested && is_same_device(actual, *requested)));
}

/// Reports that the second of two exports of an object is on another device than the first.
[[noreturn]] FERRY_COLD inline void fail_moved(device is, device was) {
    ferry::detail::fail(errc::device, "from_dlpack",
                        message{"the tensor is on "}
                            << name(is.type) << ":" << is.id << ", expected " << name(was.type) << ":" << was.id
                            << ", where the previous call to __dlpack__ exported it: __dlpack__ must export on the "
                               "device of __dlpack_device__ (R37)",
                        in_python);
}

/// Repeats an import for the device of the tensor in `got`; see import_producer.
FERRY_COLD inline void repeat_import(PyObject* x, published const& type, request const& req, importer const& by,
                                     imported& got) {
    device const actual = got.tensor.device();
    got = {.assumed = got.assumed};
    producer_cache::known().set_exports_gpu(Py_TYPE(x));
    import_by_dlpack(x, type, req, actual, by, got);
    if (device const dev = got.tensor.device(); !is_ordered(dev, actual, {})) fail_moved(dev, actual);
}

/// Imports an object that is not a capsule. If the tensor is not on the GPU that `__dlpack_device__` announced, the
/// producer had no stream of the actual GPU and may have queued a copy there, so the import is repeated for the actual
/// device (R38). `__dlpack_device__` is called only if the request, the current stream of the consumer or the back end
/// depends on the device, or if an import from the same type has been repeated before.
/// \throws error_is_set, error  errors of import_by_dlpack and import_without_dlpack; errc::device if the device
///                             changes
FERRY_NOINLINE inline void import_producer(PyObject* x, published const& type, request const& req, importer const& by,
                                           imported& got) {
    bool const is_plain = !req.device && req.copy == copy_policy::if_needed;
    if (is_plain && import_by_table(x, type, got)) return;
    if (!has_dlpack(x, type)) return import_without_dlpack(x, type, by, got);
    bool const needs_device = by.its.current_stream != nullptr || by.its.select != nullptr || !is_plain ||
                              !req.stream.is_none() || type.exports_gpu;
    auto const announced = needs_device ? dlpack_device_of(x) : std::nullopt;
    import_by_dlpack(x, type, req, announced, by, got);
    if (is_ordered(got.tensor.device(), announced, req.device)) return;
    repeat_import(x, type, req, by, got);
}

/// Imports a PyTorch tensor. Rejects tensors with properties that DLPack cannot represent.
/// \throws error_is_set, error  BufferError with the fix; errors of import_producer
FERRY_NOINLINE inline void import_torch(PyObject* x, published const& type, request const& req, importer const& by,
                                        imported& got) {
    require_plain(x, type);
    // Shares the memory first: PyTorch reads it when it copies, and a wrapper without memory refuses copy=False with an
    // error that does not state the reason.
    bool const needs_check = may_copy(req) || (type.is_torch_subclass && req.copy == copy_policy::never);
    bool const checks_first = needs_check && !type.overrides_torch;
    try {
        if (checks_first) {
            import_producer(x, type, {}, by, got);
            require_memory(x, type, got.tensor.view(in_python), true);
            got = {.assumed = got.assumed};
        }
        import_producer(x, type, req, by, got);
    } catch (error_is_set const&) {
        explain_refusal(x, type);
        throw;
    }
    if (!checks_first)
        require_memory(x, type, got.tensor.view(in_python), type.is_torch_subclass || req.copy == copy_policy::never);
    auto const code = got.tensor.dtype().code;
    if (code == type_code::complex || code == type_code::bcomplex) require_unconjugated(x, type);
}

/// Returns the stream on which the tensor of a capsule is ready: the default stream (R44).
[[nodiscard]] inline stream_token ready_in_capsule(managed_tensor const& tensor) noexcept {
    return ferry::detail::ready_after({}, tensor.device());
}
/// Returns whether a producer copied despite copy=False (R54). The flag in a capsule does not belong to the request.
[[nodiscard]] inline bool is_copied_despite(PyObject* x, request const& req, managed_tensor const& got) noexcept {
    return req.copy == copy_policy::never && got.is_copied() && PyCapsule_CheckExact(x) == 0;
}
inline constexpr ferry::detail::sentence copied_text =
    "copy=False was requested, but the producer made a copy (R54): request copy=None";

/// Imports an object with `__dlpack__`, or a capsule (R64). A capsule was created without a stream, so its tensor is
/// ready on the default stream (R44). Returns true if nothing of the request remains.
FERRY_ALWAYS_INLINE bool import_any(PyObject* x, request const& req, importer const& by, imported& got) {
    if (PyCapsule_CheckExact(x) != 0) {
        got.tensor = consume_capsule(x, got.assumed);
        got.ready_on = ready_in_capsule(got.tensor);
        return false;
    }
    // In host memory, the stream and the version of a request have no effect on an array that is shared.
    if (!req.device && req.copy != copy_policy::always && req.stream.is_none() && (got.tensor = import_numpy(x)))
        return req.placement == placement::any;
    published const type = published_by(Py_TYPE(x));
    if (type.torch_base != nullptr) import_torch(x, type, req, by, got);
    else import_producer(x, type, req, by, got);
    return false;
}

/// Returns whether no copy and no wait remains for a tensor.
[[nodiscard]] FERRY_ALWAYS_INLINE bool is_final(request const& req, ferry::detail::accepted_elements accepted,
                                                managed_tensor const& got) noexcept {
    auto const v = ferry::detail::trusted::view(got);
    return !req.device && req.copy == copy_policy::if_needed && req.placement == placement::any &&
           req.stream.is_none() && v.device().type == device_type::cpu &&
           (!v.strides().is_implicit() || v.rank() == 0) && (accepted.vectors || v.dtype().lanes == 1) &&
           (accepted.padded || !v.is_padded());
}

template <class BackEnd>
bool imports_through<BackEnd>::finish(BackEnd const& b, importer const& by, request const& req, imported& got,
                                      ferry::detail::reporter r) {
    return finish_import<managed_tensor>(b, by, req, got, r);
}

#if defined(FERRY_SEPARATE_COMPILATION)
template struct imports_through<host_back_end>;
template struct imports_through<share_only_back_end>;
template struct imports_through<back_end_ref>;
#endif

/// Carries out the rest of a request, unless nothing remains. The flag for a copy in a capsule does not belong to the
/// request.
FERRY_ALWAYS_INLINE bool finish(PyObject* x, request const& req, importer const& by, imported& got,
                                ferry::detail::reporter r) {
    if (is_final(req, by.its.accepted, got.tensor)) return true;
    auto const rest = PyCapsule_CheckExact(x) != 0 ? req : ferry::detail::remaining(req, got.tensor);
    return by.its.finish(by, rest, got, r);
}

FERRY_PYTHON_INLINE void import_object(PyObject* x, request const& req, importer const& by, imported& got) {
    if (import_any(x, req, by, got)) return;
    if (!got.tensor) {
        PyErr_Format(PyExc_TypeError, "from_dlpack() expects an object with __dlpack__ or a DLPack capsule, got %.200s",
                     type_name{Py_TYPE(x)}.text());
        throw error_is_set{};
    }
    if (is_copied_despite(x, req, got.tensor))
        ferry::detail::fail(errc::copy_needed, "from_dlpack", message{copied_text}, in_python);
    static_cast<void>(finish(x, req, by, got, {"ferry::from_dlpack", in_python}));
}

FERRY_PYTHON_INLINE void accept_struct(importer const& by, imported& got) {
    ferry::detail::reporter const r{"ferry::from_dlpack", in_python};
    device const dev = got.tensor.device();
    auto const req = with_stream(by, {}, dev);
    got.ready_on = ferry::detail::ready_after(req, dev);
    if (!by.its.accepted.padded && ferry::detail::trusted::view(got.tensor).is_padded())
        static_cast<void>(by.its.finish(by, {}, got, r));
    static_cast<void>(ferry::detail::check_lanes(ferry::detail::trusted::view(got.tensor), by.its.accepted, r));
    got.ready_on = ferry::detail::ready_for(req, already_ready, dev);
}

/// Removes the current Python error, and returns it.
[[nodiscard]] FERRY_COLD inline error take_python_error(reference* raised, char const* api,
                                                        std::source_location where) noexcept {
    bool const is_memory = PyErr_ExceptionMatches(PyExc_MemoryError) != 0;
    if (raised != nullptr) *raised = take_exception();
    PyErr_Clear();
    return error{is_memory ? errc::out_of_memory : errc::foreign_exception, api,
                 message{"the producer raised a Python exception: pass `raised` to receive it, or call from_python"},
                 where};
}

FERRY_PYTHON_INLINE error caught_error(reference* raised, char const* api, std::source_location where) noexcept {
    try {
        throw;
    } catch (error_is_set const&) {
        return take_python_error(raised, api, where);
    } catch (error const& e) {
        return e;
    } catch (std::bad_alloc const&) {
        return error{errc::out_of_memory, api, message{"an allocation failed: release some memory"}, where};
    } catch (std::exception const& e) {
        return error{errc::foreign_exception, api, e.what(), where};
    } catch (...) {
        return error{errc::foreign_exception, api,
                     message{"an exception that is not a std::exception: check what the functions of the call throw"},
                     where};
    }
}

FERRY_PYTHON_INLINE ferry::result<void> try_import(PyObject* x, request const& req, importer const& by, char const* api,
                                                   imported& got) {
    if (PyCapsule_CheckExact(x) != 0) {
        auto taken = try_from_capsule(x, got.assumed);
        if (!taken) return taken.error();
        got.ready_on = ready_in_capsule(*taken);
        got.tensor = *std::move(taken);
    } else {
        if (import_any(x, req, by, got)) return {};
        if (!got.tensor)
            return error{
                errc::argument, api,
                message{"the object has no __dlpack__ and is not a DLPack capsule: pass an array or a capsule"},
                in_python};
        if (is_copied_despite(x, req, got.tensor))
            return error{errc::copy_needed, api, message{copied_text}, in_python};
    }
    return ferry::detail::attempt<void>("ferry::from_dlpack", in_python,
                                        [&](ferry::detail::record& to) { return finish(x, req, by, got, to); });
}

}  // namespace detail

[[nodiscard]] FERRY_PYTHON_INLINE bool supports_dlpack(PyObject* x) {
    if (PyCapsule_CheckExact(x) != 0) return true;
    detail::published const type = detail::published_by(Py_TYPE(x));
    return detail::has_dlpack(x, type) || detail::find_exchange_api(x, type) != nullptr;
}

}  // namespace FERRY_NAMESPACE::python
