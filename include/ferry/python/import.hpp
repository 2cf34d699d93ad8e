// ferry: imports from Python objects and capsules.
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/capsule.hpp>
#include <ferry/python/detail/back_end.hpp>
#include <ferry/python/detail/call_dlpack.hpp>
#include <ferry/python/detail/numpy_array.hpp>
#include <ferry/python/detail/published.hpp>
#include <ferry/python/detail/torch_tensor.hpp>
#include <ferry/python/error.hpp>

#include <ferry/base/flags.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/space/detail/operations.hpp>

#include <concepts>
#include <optional>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// An imported tensor and the stream on which it is ready; already_ready if no work is pending. The tensor is empty if
/// the object has no protocol. The functions below write it to an object of their caller, because a tensor that is
/// returned through several functions is copied in each.
struct imported {
    managed_tensor tensor{};
    stream_token ready_on = already_ready;
    /// Flags of a legacy tensor, whose struct contains none; the caller sets them before the import.
    flags assumed = flags::read_only;
};

/// Returns the current stream of a producer, from its exchange table (R76).
/// \return     the stream; NULL is converted to the legacy default stream of CUDA, the default stream of ROCm, or
///             already_ready for other device types
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
/// the producer (R73, R76).
/// \return      false if there is no table
[[nodiscard]] inline bool import_by_table(PyObject* x, published const& type, imported& got) {
    auto const* const table = type.table ? find_exchange_api(x, type) : nullptr;
    if (table != nullptr) call_table(x, *table, got);
    return table != nullptr;
}

/// A back end that makes a device current for a scope, as some producers require (R42): `make_current(device)` returns
/// an object whose destructor restores the previous device. For device types that the back end does not support, the
/// function does nothing.
struct has_selection {
    template <class BackEnd>
    static constexpr bool of = requires(BackEnd& b, device dev) { b.make_current(dev); };
};
template <class BackEnd>
concept selects_device = !std::is_void_v<ferry::detail::operations_found<has_selection, BackEnd>>;

struct no_selection {};
template <class BackEnd>
[[nodiscard]] auto select_device([[maybe_unused]] BackEnd& b, [[maybe_unused]] device dev) {
    if constexpr (selects_device<BackEnd>) {
        auto& selecting = *ferry::detail::find_operations<has_selection>(b);
        return ferry::detail::call([&] { return selecting.make_current(dev); });
    } else return no_selection{};
}

/// A back end that imports objects without `__dlpack__` through another protocol: `import_other_protocol(x)` returns
/// std::nullopt for objects without that protocol.
struct has_other_protocol {
    template <class BackEnd>
    static constexpr bool of = requires(BackEnd& b, PyObject* x) {
        { b.import_other_protocol(x) } -> ferry::detail::yields<std::optional<imported>>;
    };
};
template <class BackEnd>
concept imports_other_protocol = !std::is_void_v<ferry::detail::operations_found<has_other_protocol, BackEnd>>;

/// Imports an object without `__dlpack__`, through its exchange table or the other protocol of the back end.
template <class BackEnd>
void import_without_dlpack(PyObject* x, published const& type, [[maybe_unused]] BackEnd& b, imported& got) {
    if (import_by_table(x, type, got)) return;
    if constexpr (imports_other_protocol<BackEnd>)
        if (PyType_Check(x) == 0)
            if (auto other = ferry::detail::call(
                    [&] { return ferry::detail::find_operations<has_other_protocol>(b)->import_other_protocol(x); }))
                got = std::move(*other);
}

/// Returns the device that `__dlpack_device__` reports (R37).
/// \return   the device; std::nullopt if there is no such method or its result is not a device
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

/// Back ends that reach no GPU. The code for copies by a producer, which they do not execute, is omitted.
template <class BackEnd>
inline constexpr bool reaches_host_only = std::same_as<std::remove_const_t<BackEnd>, host_back_end> ||
                                          std::same_as<std::remove_const_t<BackEnd>, share_only_back_end>;

/// Requests a copy of GPU memory that the producer does not share. The producer queues the copy on its current stream
/// or on the stream passed to it; the function waits for both. The current Python error must be the producer's refusal
/// to share.
/// \throws error_is_set, error  BufferError if no table provides the current stream; an exception of the producer;
///                             errors of ferry::from_dlpack and of the back end
template <class BackEnd>
FERRY_COLD void copy_by_producer(PyObject* x, published const& type, request const& req, device at, BackEnd& b,
                                 imported& got) {
    std::optional<stream_token> current;
    if constexpr (!reaches_host_only<BackEnd>) {
        kept_error const refusal;
        if (b.reaches(at))
            if (auto const* const table = find_exchange_api(x, type)) current = current_stream_of(*table, at);
    }
    if (!current) {
        replace_error("from_dlpack",
                      ": the producer does not share this memory, and the stream on which it would copy is "
                      "unknown: copy it with the producer's library, synchronise, and import the copy");
        throw error_is_set{};
    }
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

/// Imports an object through `__dlpack__`, or through its exchange table if ferry makes the copies (see
/// is_copied_here). The device of the data is current during the call (R42), and the producer receives the stream on
/// which T uses the data (R43).
template <class T, class BackEnd>
FERRY_NOINLINE void import_by_dlpack(PyObject* x, published const& type, request const& given,
                                     std::optional<device> const& at, BackEnd& b, imported& got) {
    device const target = given.device.value_or(at.value_or(cpu));
    bool const copied_here = at && is_copied_here(*at, target, b);
    // No stream is passed for pinned memory, which PyTorch exports as CPU memory: the producer then waits (R49).
    bool const adds_stream =
        has_current_stream<T> && at && is_known(target.type) && (copied_here || target.type != device_type::cuda_host);
    request changed;
    if (adds_stream) changed = ferry::detail::with_stream<T>(given, target);
    request const& req = adds_stream ? changed : given;
    [[maybe_unused]] auto const current = select_device(b, at.value_or(cpu));
    try {
        if (copied_here && import_by_table(x, type, got)) return;
        reference const capsule = request_capsule(x, req, at, copied_here);
        got.tensor = consume_capsule(capsule.get(), got.assumed);
        got.ready_on = ferry::detail::ready_after(req, got.tensor.device());
        return;
    } catch (error_is_set const&) {
        if (!copied_here || !may_copy(req) || PyErr_ExceptionMatches(PyExc_BufferError) == 0) throw;
    }
    copy_by_producer(x, type, req, *at, b, got);
}

/// Returns whether the tensor is ready on the stream that was passed to the producer: for GPU memory only if the stream
/// belongs to that GPU, otherwise always.
/// \return           whether the tensor is ready on that stream
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
template <class T, class BackEnd>
FERRY_COLD void repeat_import(PyObject* x, published const& type, request const& req, BackEnd& b, imported& got) {
    device const actual = got.tensor.device();
    got = {.assumed = got.assumed};
    producer_cache::known().set_exports_gpu(Py_TYPE(x));
    import_by_dlpack<T>(x, type, req, actual, b, got);
    if (device const dev = got.tensor.device(); !is_ordered(dev, actual, {})) fail_moved(dev, actual);
}

/// Imports an object that is not a capsule. If the tensor is not on the GPU that `__dlpack_device__` announced, the
/// producer had no stream of the actual GPU and may have queued a copy there, so the import is repeated for the actual
/// device (R38). `__dlpack_device__` is called only if the request, the current stream of T or the back end depends on
/// the device, or if an import from the same type has been repeated before.
/// \throws error_is_set, error  errors of import_by_dlpack and import_without_dlpack; errc::device if the device
///                             changes
template <class T, class BackEnd>
FERRY_NOINLINE void import_producer(PyObject* x, published const& type, request const& req, BackEnd& b, imported& got) {
    bool const is_plain = !req.device && req.copy == copy_policy::if_needed;
    if (is_plain && import_by_table(x, type, got)) return;
    if (!has_dlpack(x, type)) return import_without_dlpack(x, type, b, got);
    bool const needs_device =
        has_current_stream<T> || selects_device<BackEnd> || !is_plain || !req.stream.is_none() || type.exports_gpu;
    auto const announced = needs_device ? dlpack_device_of(x) : std::nullopt;
    import_by_dlpack<T>(x, type, req, announced, b, got);
    if (is_ordered(got.tensor.device(), announced, req.device)) return;
    repeat_import<T>(x, type, req, b, got);
}

/// Imports a PyTorch tensor. Rejects tensors with properties that DLPack cannot represent.
/// \throws error_is_set, error  BufferError with the fix; errors of import_producer
template <class T, class BackEnd>
FERRY_NOINLINE void import_torch(PyObject* x, published const& type, request const& req, BackEnd& b, imported& got) {
    require_plain(x, type);
    // Shares the memory first: PyTorch reads it when it copies, and a wrapper without memory refuses copy=False with an
    // error that does not state the reason.
    bool const needs_check = may_copy(req) || (type.is_torch_subclass && req.copy == copy_policy::never);
    bool const checks_first = needs_check && !type.overrides_torch;
    try {
        if (checks_first) {
            import_producer<T>(x, type, {}, b, got);
            require_memory(x, type, got.tensor.view(in_python), true);
            got = {.assumed = got.assumed};
        }
        import_producer<T>(x, type, req, b, got);
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

/// Imports an object with `__dlpack__`, or a capsule (R64). A capsule was created without a stream, so its tensor is
/// ready on the default stream (R44).
template <class T, class BackEnd>
void import_object(PyObject* x, request const& req, BackEnd& b, imported& got) {
    if (PyCapsule_CheckExact(x) != 0) {
        got.tensor = consume_capsule(x, got.assumed);
        got.ready_on = ready_in_capsule(got.tensor);
        return;
    }
    // In host memory, the stream and the version of a request have no effect on an array that is shared.
    if (!req.device && req.copy != copy_policy::always && req.stream.is_none() && (got.tensor = import_numpy(x)))
        return;
    published const type = published_by(Py_TYPE(x));
    if (type.torch_base != nullptr) import_torch<T>(x, type, req, b, got);
    else import_producer<T>(x, type, req, b, got);
}

/// Returns whether a producer copied despite copy=False (R54). The flag in a capsule does not belong to the request.
/// \return     whether it copied
[[nodiscard]] inline bool is_copied_despite(PyObject* x, request const& req, managed_tensor const& got) noexcept {
    return req.copy == copy_policy::never && got.is_copied() && PyCapsule_CheckExact(x) == 0;
}
/// Returns the part of a request that remains after the import of `x` as `got`; see ferry::detail::remaining. The flag
/// in a capsule does not belong to the request.
[[nodiscard]] inline request remaining(PyObject* x, request const& req, managed_tensor const& got) noexcept {
    return PyCapsule_CheckExact(x) != 0 ? req : ferry::detail::remaining(req, got);
}
inline constexpr ferry::detail::sentence copied_text =
    "copy=False was requested, but the producer made a copy (R54): request copy=None";

/// Returns whether a tensor satisfies a request with placement::any for a managed_tensor, so that no copy and no wait
/// remains.
[[nodiscard]] inline bool is_final(request const& req, managed_tensor const& got) noexcept {
    return !req.device && req.copy == copy_policy::if_needed && req.stream.is_none() &&
           got.device().type == device_type::cpu;
}

/// See from_python. `MayPlace`: the request may have placement::exact.
template <class T, bool MayPlace = false, class BackEnd>
[[nodiscard]] T import_as(PyObject* x, request const& req, BackEnd& b, flags assumed = flags::read_only) {
    auto const where = in_python;
    imported got{.assumed = assumed};
    import_object<T>(x, req, b, got);
    if (!got.tensor) {
        PyErr_Format(PyExc_TypeError, "from_dlpack() expects an object with __dlpack__ or a DLPack capsule, got %.200s",
                     type_name{Py_TYPE(x)}.text());
        throw error_is_set{};
    }
    if (is_copied_despite(x, req, got.tensor))
        ferry::detail::fail(errc::copy_needed, "from_dlpack", message{copied_text}, where);
    if constexpr (std::same_as<T, managed_tensor>)
        if ((!MayPlace || req.placement == placement::any) && is_final(req, got.tensor)) return std::move(got.tensor);
    gil_releasing_back_end releasing{b};
    auto const rest = remaining(x, req, got.tensor);
    return ferry::from_dlpack<T>(std::move(got.tensor), rest, releasing, got.ready_on, where);
}

}  // namespace detail

/// Returns whether an object can be imported: a capsule, or an instance of a type with `__dlpack__` or an exchange
/// table. The answer for a type is cached, so that callers that try several protocols build no error. Requires the GIL.
///
/// \param x  any object
/// \return   whether it can be imported, unless the import fails
/// \throws error_is_set  an exception that the look-up raises
[[nodiscard]] inline bool supports_dlpack(PyObject* x) {
    if (PyCapsule_CheckExact(x) != 0) return true;
    detail::published const type = detail::published_by(Py_TYPE(x));
    return detail::has_dlpack(x, type) || detail::find_exchange_api(x, type) != nullptr;
}

/// Imports a Python object as a C++ array (R42, R43, R56–R58). Passes the request to the producer, validates the
/// tensor, makes the copies that the producer did not make, and calls `array_traits<T>::adopt`.
///
/// Requires the GIL, and releases it during waits, device copies and large host copies. After a failure, an imported
/// tensor has been released exactly once, and a capsule that was not consumed is unchanged.
///
/// \tparam T  consumer: managed_tensor, or an array type with array_traits<T>::adopt
/// \param x        DLPack capsule, or object with `__dlpack__`, `__dlpack_c_exchange_api__` or another protocol that
///                 the back end imports
/// \param req      request
/// \param b        back end that copies, orders and waits
/// \param assumed  flags of a legacy tensor, as for from_capsule
/// \return         array
/// \throws error_is_set  an exception of the producer; TypeError for an object without a protocol; ValueError for a
///                       capsule that cannot be used; BufferError for a PyTorch tensor that DLPack cannot represent
/// \throws error  errors of ferry::from_dlpack; errc::copy_needed if the producer copied despite copy=False (R54);
///                errc::device if two calls to `__dlpack__` export on different devices (R37)
template <class T, class BackEnd = host_back_end>
[[nodiscard]] T from_python(PyObject* x, request const& req, BackEnd&& b = {}, flags assumed = flags::read_only) {
    detail::require_main_interpreter();
    return detail::import_as<T, true>(x, req, b, assumed);
}
// clang-format off
FERRY_DELETED_BRACED(from_python, try_from_python, (PyObject*, ferry::detail::wrong_request, Rest&&...), "streams are neither integers nor pointers: pass stream_token::cuda(the cudaStream_t), stream_token::from_cuda_handle(a void*), stream_token::cuda_legacy_default(), stream_token::rocm(the hipStream_t), or {} for no stream",
    template <class T, class... Rest>);
// clang-format on

}  // namespace FERRY_NAMESPACE::python
