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

namespace detail {

/// Sets the argument with a given name.
/// \throws error_is_set  TypeError for an unknown name
FERRY_NOINLINE inline void set_argument(export_arguments& given, PyObject* name, PyObject* value) {
    auto const& known = names();
    auto const set = [&](auto matches) {
        PyObject** const slot = matches(known.max_version) ? &given.max_version
                                : matches(known.dl_device) ? &given.dl_device
                                : matches(known.copy)      ? &given.copy
                                : matches(known.stream)    ? &given.stream
                                                           : nullptr;
        if (slot != nullptr) *slot = value;
        return slot != nullptr;
    };
    if (set([&](PyObject* interned) { return name == interned; })) return;
    if (set([&](PyObject* interned) { return is_named(name, interned); })) return;
    PyErr_Format(PyExc_TypeError, "__dlpack__() got an unexpected keyword argument '%U'", name);
    throw error_is_set{};
}

/// A reference to an argument; none to None, the usual argument.
class held_argument {
   public:
    explicit held_argument(PyObject* object) noexcept : object_{object != Py_None ? object : nullptr} {
        Py_XINCREF(object_);
    }
    held_argument(held_argument const&) = delete;
    held_argument& operator=(held_argument const&) = delete;
    ~held_argument() { Py_XDECREF(object_); }

   private:
    PyObject* object_;
};

/// Requires that a call has no positional arguments.
inline void require_keywords(Py_ssize_t positional) {
    if (positional != 0)
        raise(PyExc_TypeError, "__dlpack__()",
              " does not accept positional arguments: pass stream, max_version, dl_device and copy by name");
}

/// Converts the arguments of `__dlpack__`, of which at least one is present.
FERRY_NOINLINE inline void convert_present(export_arguments const& given, converted_arguments& asked) {
    asked.req.copy = copy_from(given.copy);
    // Reading max_version may run Python code that removes the other objects from the dict that holds them.
    held_argument const device_held{given.dl_device}, stream_held{given.stream};
    asked.req.max_version = version_from(given.max_version);
    if (given.dl_device != Py_None)
        asked.req.device =
            device_from_pair(given.dl_device, "dl_device", " must be None or a pair of integers (type, id)");
    asked.stream = stream_number(given.stream);
}

}  // namespace detail

/// Parses the arguments of `__dlpack__` in a method with the flags `METH_FASTCALL | METH_KEYWORDS` (R52). Requires the
/// GIL.
///
/// \param args        arguments of the vectorcall protocol
/// \param positional  number of positional arguments
/// \param keywords    tuple of the keyword names, or null
/// \return            arguments
/// \throws error_is_set  TypeError for an unknown keyword or a positional argument
[[nodiscard]] inline export_arguments parse_export_arguments(PyObject* const* args, Py_ssize_t positional,
                                                             PyObject* keywords) {
    detail::require_keywords(positional);
    export_arguments given;
    Py_ssize_t const count = keywords != nullptr ? detail::tuple_size(keywords) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) detail::set_argument(given, detail::tuple_item(keywords, i), args[i]);
    return given;
}

/// Parses the arguments of `__dlpack__` in a method with the flags `METH_VARARGS | METH_KEYWORDS` (R52). Requires the
/// GIL.
///
/// \param args      tuple of the positional arguments, or null
/// \param keywords  dict of the keyword arguments, or null
/// \return          arguments
/// \throws error_is_set  TypeError for an unknown keyword or a positional argument
[[nodiscard]] inline export_arguments parse_export_arguments(PyObject* args, PyObject* keywords) {
    detail::require_keywords(args != nullptr ? detail::tuple_size(args) : 0);
    export_arguments given;
    PyObject *name = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
#if defined(Py_GIL_DISABLED)
    if (keywords == nullptr) return given;
    detail::critical_section const alone{keywords};
#endif
    while (keywords != nullptr && PyDict_Next(keywords, &position, &name, &value) != 0)
        detail::set_argument(given, name, value);
    return given;
}

/// Converts the arguments of `__dlpack__` (R44, R54, R57). The conversion may run Python code that changes or replaces
/// the array, so call this function before you access the array. Requires the GIL.
///
/// \param given  arguments
/// \return       converted arguments
/// \throws error_is_set  ValueError or TypeError for an invalid argument; an exception raised by `__index__`
[[nodiscard]] inline converted_arguments convert_arguments(export_arguments const& given) {
    converted_arguments asked;
    asked.req.max_version = version::legacy;
    bool const has_arguments =
        given.stream != Py_None || given.max_version != Py_None || given.dl_device != Py_None || given.copy != Py_None;
    if (has_arguments) detail::convert_present(given, asked);
    return asked;
}

/// Combines the converted arguments with the device of the tensor into a request (R44–R46, R48). Requires the GIL.
///
/// \param asked  converted arguments
/// \param dev    device of the tensor
/// \return       request
/// \throws error_is_set  ValueError for a number that is not a stream of the requested device or, without one, of `dev`
[[nodiscard]] inline request to_request(converted_arguments const& asked, device dev) {
    request req = asked.req;
    req.stream = detail::stream_from(asked.stream, req.device.value_or(dev).type);
    return req;
}

/// Converts a device to the result of `__dlpack_device__` (R35, R37). Requires the GIL.
///
/// \param dev  device
/// \return     new reference to the pair (type, id), whose id is 0 for host-accessible memory; null with a Python
///             error set
[[nodiscard]] inline PyObject* to_device_pair(device dev) noexcept {
    return Py_BuildValue("(ii)", static_cast<int>(dev.type), ignores_id(dev.type) ? 0 : static_cast<int>(dev.id));
}

namespace detail {

/// Reports that the back end of an export never copies, and that the export requires a copy.
[[noreturn]] FERRY_COLD inline void fail_uncopied(request const& req, device from, device to) {
    message text;
    if (!ferry::detail::is_reachable_as(from, to))
        text << "the data is on " << name(from.type) << ":" << from.id << ", and this object cannot copy it to "
             << name(to.type) << ":" << to.id << ": omit dl_device";
    else if (req.copy == copy_policy::always) text << "this object cannot copy: omit copy=True";
    else text << "the array is read-only or has padded elements: pass max_version=(1, 0) (R13, R15)";
    ferry::detail::fail(errc::copy_needed, "__dlpack__", text, in_python);
}

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
    bool const is_legacy = d.stamp.is_legacy();
    if constexpr (!ferry::detail::never_copies<BackEnd>) {
        if (d.action == action::copy) {  // a legacy struct then owns the copy, so that the code for copies exists once
            if (is_legacy) d.stamp = version::current;
            auto copied = ferry::detail::trusted::adopt(
                ferry::detail::export_shared<DLManagedTensorVersioned, std::remove_const_t<T>, true>(
                    own, d, held, ready, releasing, r));
            return is_legacy ? make_capsule(copied.release_legacy(in_python)) : make_capsule(copied.release());
        }
    }
    static_cast<void>(ferry::detail::wait_to_share(ready, held.device(), d, releasing, r));
    auto const as = [&]<class Raw>(std::type_identity<Raw> raw) {
        return make_capsule(own(raw, d.to, d.bits, d.stamp));
    };
    return is_legacy ? as(std::type_identity<DLManagedTensor>{}) : as(std::type_identity<DLManagedTensorVersioned>{});
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
