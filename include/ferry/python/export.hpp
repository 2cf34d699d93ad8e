// ferry: `__dlpack__` and `__dlpack_device__` for an array type (R37, R52, R57).
#pragma once

#include <ferry/python/arguments.hpp>
#include <ferry/python/back_end.hpp>
#include <ferry/python/capsule.hpp>
#include <ferry/python/error.hpp>

#include <ferry/exchange/to_dlpack.hpp>

#include <optional>
#include <source_location>
#include <type_traits>

namespace ferry::inline v0::python::detail {

/// The arguments of one call of `__dlpack__`, unconverted.
struct export_arguments {
    PyObject* stream = Py_None;
    PyObject* max_version = Py_None;
    PyObject* dl_device = Py_None;
    PyObject* copy = Py_None;

    /// Returns the argument for a name that is not interned; null for an unknown name.
    [[nodiscard]] PyObject** find(PyObject* name, interned_names const& known) noexcept {
        if (is_named(name, known.max_version)) return &max_version;
        if (is_named(name, known.dl_device)) return &dl_device;
        if (is_named(name, known.copy)) return &copy;
        return is_named(name, known.stream) ? &stream : nullptr;
    }
};

/// Parses the keyword arguments of `__dlpack__` (R52).
///
/// \param args        arguments of the vectorcall protocol
/// \param positional  number of positional arguments
/// \param keywords    tuple of the names, or null
/// \return            arguments, borrowed
/// \throws error_is_set  TypeError for an unknown keyword or a positional argument
[[nodiscard]] inline export_arguments parse_export_arguments(PyObject* const* args, Py_ssize_t positional,
                                                             PyObject* keywords) {
    if (positional != 0)
        raise(PyExc_TypeError, "__dlpack__() takes keyword arguments only: stream, max_version, dl_device, copy");
    export_arguments given;
    Py_ssize_t const count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    auto const& known = names();
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* const name = PyTuple_GET_ITEM(keywords, i);
        PyObject** const slot = name == known.max_version ? &given.max_version
                                : name == known.dl_device ? &given.dl_device
                                : name == known.copy      ? &given.copy
                                : name == known.stream    ? &given.stream
                                                          : given.find(name, known);
        if (slot != nullptr) *slot = args[i];
        else {
            PyErr_Format(PyExc_TypeError, "__dlpack__() got an unexpected keyword argument '%U'", name);
            throw error_is_set{};
        }
    }
    return given;
}

/// The converted arguments. The stream remains a number, because its meaning depends on the device of the tensor (R48).
struct converted_arguments {
    request req;
    std::optional<long long> stream;
};

/// Converts the arguments. This may run arbitrary Python code.
///
/// \param given  arguments
/// \return       converted arguments
/// \throws error_is_set  ValueError, TypeError; an exception of `__index__`
[[nodiscard]] inline converted_arguments convert(export_arguments const& given) {
    converted_arguments asked;
    asked.req.max_version = version_from(given.max_version);
    asked.req.copy = copy_from(given.copy);
    if (given.dl_device != Py_None)
        asked.req.device =
            device_from_pair(given.dl_device, "dl_device must be None or a pair of integers (type, id)");
    asked.stream = stream_number(given.stream);
    return asked;
}

/// Combines the converted arguments with the device of the tensor into a request.
///
/// \param asked  converted arguments
/// \param dev    device of the tensor
/// \return       request
/// \throws error_is_set  ValueError for a stream that the device does not have
[[nodiscard]] inline request to_request(converted_arguments const& asked, device dev) {
    request req = asked.req;
    req.stream = stream_from(asked.stream, req.device.value_or(dev).type);
    return req;
}

/// Exports an array as a new capsule. Copies are made from a shared owner, so that the array itself is not read while
/// the GIL is released.
///
/// \param array  array
/// \param v      view of the array
/// \param req    request
/// \param ready  stream on which the array is ready
/// \param b      back end
/// \param added  flags to add to those of the result
/// \return       new reference
/// \throws error_is_set  errors of make_capsule
/// \throws error         errors of ferry::to_dlpack
template <class T, class BackEnd>
[[nodiscard]] PyObject* export_array_capsule(T& array, tensor_view const& v, request const& req, stream_token ready,
                                             BackEnd& b, flags added = flags::none) {
    ferry::detail::reporter const r{"__dlpack__", std::source_location::current()};
    auto d = negotiate(ferry::detail::properties_of(v, ready, true), req);
    d.bits |= added;
    gil_releasing_back_end releasing{b};
    auto const as = [&]<class Raw>(std::type_identity<Raw>) {
        if (d.act != action::copy || ferry::detail::reads_after_return(d, v.device()))
            return ferry::detail::export_array<Raw>(array, d, v, ready, releasing, r);
        auto shared = array_traits<std::remove_const_t<T>>::share(array);
        static_cast<void>(ferry::detail::check_result(shared, r));
        auto& handle = ferry::detail::unwrapped(shared);
        auto const never_shares = []() -> Raw* { return nullptr; };
        return ferry::detail::execute<Raw, std::remove_const_t<T>>(d, view_of(handle), ready, releasing, never_shares,
                                                                   r);
    };
    if (d.stamp.is_legacy() && d.act != action::refuse) return make_capsule(as(std::type_identity<DLManagedTensor>{}));
    return make_capsule(as(std::type_identity<DLManagedTensorVersioned>{}));
}

/// Exports an array as a new capsule. The arguments are converted first, because the conversion may run Python code
/// that changes the array.
///
/// \param array  array
/// \param given  arguments
/// \param b      back end
/// \return       new reference
/// \throws error_is_set  errors of convert, to_request and make_capsule
/// \throws error         errors of ferry::to_dlpack
template <class T, class BackEnd>
[[nodiscard]] PyObject* export_capsule(T& array, export_arguments const& given, BackEnd& b) {
    auto const asked = convert(given);
    tensor_view const& v = view_of(array);
    return export_array_capsule(array, v, to_request(asked, v.device()), ferry::detail::ready_on(array), b);
}

}  // namespace ferry::inline v0::python::detail
