// ferry: the arguments and the result of `__dlpack__` and `__dlpack_device__` (R37, R52, R57).
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/capsule.hpp>
#include <ferry/python/detail/back_end.hpp>
#include <ferry/python/error.hpp>

#include <ferry/base/device.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <optional>
#include <type_traits>

namespace FERRY_NAMESPACE::python {

/// The arguments of one call to `__dlpack__`, before conversion (R52). The references are borrowed.
struct export_arguments {
    PyObject* stream = Py_None;
    PyObject* max_version = Py_None;
    PyObject* dl_device = Py_None;
    PyObject* copy = Py_None;
};

/// The converted arguments of `__dlpack__`. The stream is a number, because its meaning depends on the device of the
/// tensor (R48).
struct converted_arguments {
    /// Device, copy policy and version. The stream is not set.
    request req;
    /// Number of the stream; std::nullopt for None.
    std::optional<long long> stream;
};

/// Parses the arguments of `__dlpack__` in a method with the flags `METH_FASTCALL | METH_KEYWORDS` (R52). Requires the
/// GIL.
///
/// \param args        arguments of the vectorcall protocol
/// \param positional  number of positional arguments
/// \param keywords    tuple of the keyword names, or null
/// \return            arguments
/// \throws error_is_set  TypeError for an unknown keyword or a positional argument
[[nodiscard]] FERRY_PYTHON_INLINE export_arguments parse_export_arguments(PyObject* const* args, Py_ssize_t positional,
                                                                          PyObject* keywords);

/// Parses the arguments of `__dlpack__` in a method with the flags `METH_VARARGS | METH_KEYWORDS` (R52). Requires the
/// GIL.
///
/// \param args      tuple of the positional arguments, or null
/// \param keywords  dict of the keyword arguments, or null
/// \return          arguments
/// \throws error_is_set  TypeError for an unknown keyword or a positional argument
[[nodiscard]] FERRY_PYTHON_INLINE export_arguments parse_export_arguments(PyObject* args, PyObject* keywords);

/// Converts the arguments of `__dlpack__` (R44, R54, R57). The conversion may run Python code that changes or replaces
/// the array, so call this function before you access the array. Requires the GIL.
///
/// \param given  arguments
/// \return       converted arguments
/// \throws error_is_set  ValueError or TypeError for an invalid argument; an exception raised by `__index__`
[[nodiscard]] FERRY_PYTHON_INLINE converted_arguments convert_arguments(export_arguments const& given);

/// Combines the converted arguments with the device of the tensor into a request (R44–R46, R48). Requires the GIL.
///
/// \param asked  converted arguments
/// \param dev    device of the tensor
/// \return       request
/// \throws error_is_set  ValueError for a number that is not a stream of the requested device or, without one, of `dev`
[[nodiscard]] FERRY_PYTHON_INLINE request to_request(converted_arguments const& asked, device dev);

/// Converts a device to the result of `__dlpack_device__` (R35, R37). Requires the GIL.
///
/// \param dev  device
/// \return     new reference to the pair (type, id), whose id is 0 for host-accessible memory; null with a Python
///             error set
[[nodiscard]] FERRY_PYTHON_INLINE PyObject* to_device_pair(device dev) noexcept;

namespace detail {

/// Reports that the back end of an export never copies, and that the export requires a copy.
[[noreturn]] FERRY_PYTHON_INLINE void fail_uncopied(request const& req, device from, device to);
inline constexpr char const* allocator_name = "managed_tensor_allocator";

/// Returns a view of the tensor that a prototype describes, without data.
/// \throws error  errors of ferry::validate, and errc::null_struct
[[nodiscard]] FERRY_PYTHON_INLINE tensor_view read_prototype(DLTensor const* prototype, void const* out);
/// Passes the current exception to the caller of the allocator. Must be called in a catch block.
FERRY_PYTHON_INLINE void pass_error(void* context, void (*set_error)(void*, char const*, char const*)) noexcept;
/// Returns the DLTensor of a view. Fails for views that it cannot represent (R75).
[[nodiscard]] FERRY_PYTHON_INLINE DLTensor borrowed(tensor_view const& v);
/// Converts a copy to a capsule.
[[nodiscard]] FERRY_PYTHON_INLINE PyObject* copied_capsule(managed_tensor&& copied, bool is_legacy);
/// Carries out a decision to copy a tensor. The copy keeps `source`, the owner of the tensor, while a stream reads it;
/// null if nothing reads the tensor later.
template <class Consumer, class BackEnd>
[[nodiscard]] managed_tensor copy_export(BackEnd& b, decision const& d, tensor_view const& v, stream_token ready,
                                         managed_tensor* source) {
    gil_releasing_back_end const releasing{b};
    auto const never_shares = []() -> DLManagedTensorVersioned* { return nullptr; };
    return ferry::detail::trusted::adopt(ferry::detail::execute<DLManagedTensorVersioned, Consumer, true>(
        d, v, ready, releasing, never_shares, {"__dlpack__", in_python}, ferry::detail::tensor_source{source}));
}

/// The functions of exports that call the back end. Compiled once for each type that compiled_back_end returns.
template <class BackEnd>
struct FERRY_HIDDEN exports_through {
    [[nodiscard]] FERRY_NOINLINE static managed_tensor copy(BackEnd const& b, decision const& d, tensor_view const& v,
                                                            stream_token ready, managed_tensor* source);
};

/// Exports an array as a new capsule.
/// \return       new reference
template <class T, class BackEnd>
[[nodiscard]] PyObject* export_array_capsule(T& array, tensor_view const& v, request const& req, stream_token ready,
                                             BackEnd& b, flags added = flags::none) {
    require_main_interpreter();
    ferry::detail::reporter const r{"__dlpack__", in_python};
    auto d = ferry::detail::negotiate_at_run_time(ferry::detail::properties_of<T>(v, ready, true), req);
    d.bits |= added;
    if constexpr (ferry::detail::never_copies<BackEnd>)
        if (d.action == action::copy) fail_uncopied(req, v.device(), d.to);
    gil_releasing_back_end releasing{b};
    static_cast<void>(ferry::detail::check_decision(d, v.device(), releasing, r));
    // Another thread may change the array while the GIL is released: exports the owner that `share` returned before.
    auto shared = array_traits<std::remove_const_t<T>>::share(array);
    static_cast<void>(ferry::detail::check_result(shared, r));
    auto& handle = ferry::detail::unwrapped(shared);
    static_cast<void>(ferry::detail::wait_for_array(array, d, v.device(), releasing, r));
    auto const described = view_of(handle);
    tensor_view const& held = described;
    auto const own = [&]<class Raw>(std::type_identity<Raw>, device to, flags bits, version max) {
        return ferry::detail::own_shared<Raw, T, true>(handle, held, to, bits, max, r);
    };
    std::type_identity<DLManagedTensorVersioned> const versioned{};
    bool const is_legacy = d.stamp.is_legacy();
    if constexpr (!ferry::detail::never_copies<BackEnd>) {
        if (d.action == action::copy) {  // a legacy struct then owns the copy, so that the code for copies exists once
            if (is_legacy) d.stamp = version::current;
            managed_tensor source, copied;
            bool const keeps = ferry::detail::reads_after_return(d, held.device());  // R50
            if (keeps)
                source = ferry::detail::trusted::adopt(own(versioned, held.device(), held.flags(), version::current));
            auto* const kept = keeps ? &source : nullptr;
            if constexpr (allocates<std::remove_const_t<T>>)
                copied = copy_export<std::remove_const_t<T>>(b, d, held, ready, kept);
            else copied = exports_through<compiled_type<BackEnd>>::copy(compiled_back_end(b), d, held, ready, kept);
            return copied_capsule(std::move(copied), is_legacy);
        }
    }
    static_cast<void>(ferry::detail::wait_to_share(ready, held.device(), d, releasing, r));
    return is_legacy ? make_capsule(own(std::type_identity<DLManagedTensor>{}, d.to, d.bits, d.stamp))
                     : make_capsule(own(versioned, d.to, d.bits, d.stamp));
}

}  // namespace detail

/// Exports an array as a new capsule, with converted arguments. Requires the GIL, and releases it during waits, device
/// copies and large host copies.
///
/// \param array  array with array_traits<T>::share
/// \param asked  converted arguments
/// \param b      back end that copies, orders and waits
/// \return       new reference
/// \throws error_is_set    errors of to_request and to_capsule
/// \throws error           errors of ferry::to_dlpack
/// \throws std::bad_alloc  when an allocation fails
template <class T, class BackEnd = host_back_end>
    requires shareable<std::remove_const_t<T>>
[[nodiscard]] PyObject* export_capsule(T& array, converted_arguments const& asked, BackEnd&& b = {}) {
    tensor_view const& v = view_of(array);
    return detail::export_array_capsule(array, v, to_request(asked, v.device()), ferry::detail::ready_on(array), b);
}

/// Exports an array as a new capsule: the result of `__dlpack__` (R52, R53, R57).
///
/// Converts the arguments first, because the conversion may run Python code that changes the array. Requires the GIL,
/// and releases it during waits, device copies and large host copies.
///
/// \param array  array with array_traits<T>::share; must remain valid while the arguments are converted
/// \param given  arguments
/// \param b      back end that copies, orders and waits
/// \return       new reference
/// \throws error_is_set    errors of convert_arguments, to_request and to_capsule
/// \throws error           errors of ferry::to_dlpack
/// \throws std::bad_alloc  when an allocation fails
template <class T, class BackEnd = host_back_end>
    requires shareable<std::remove_const_t<T>>
[[nodiscard]] PyObject* export_capsule(T& array, export_arguments const& given, BackEnd&& b = {}) {
    return export_capsule(array, convert_arguments(given), b);
}

}  // namespace FERRY_NAMESPACE::python

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/python/detail/export.ipp>
#endif
