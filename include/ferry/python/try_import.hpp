// ferry: imports from Python objects without exceptions or Python errors, for callers that try several types.
#pragma once

#include <ferry/python/capsule.hpp>
#include <ferry/python/detail/back_end.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/import.hpp>

#include <ferry/base/error.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/base/result.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/from_dlpack.hpp>

#include <concepts>
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE::python {

/// Imports a Python object as a C++ array as from_python does, but without throwing. Intended for callers that try
/// several types or overloads. No Python error is set on return. For an object without a protocol and for a capsule
/// that cannot be used, no C++ exception is thrown internally either.
///
/// Requires the GIL, and releases it during waits, device copies and large host copies. No Python error may be set at
/// the time of the call. After a failure, an imported tensor has been released exactly once, and a capsule that was not
/// consumed is unchanged.
///
/// \tparam T  consumer: managed_tensor, or an array type with array_traits<T>::adopt
/// \param x        object or capsule, as for from_python
/// \param req      request
/// \param b        back end that copies, orders and waits
/// \param raised   receives the Python exception, such as a KeyboardInterrupt, which the caller can pass to
///                 PyErr_SetObject; null to discard the exception
/// \param assumed  flags of a legacy tensor, as for from_capsule
/// \return         the array, or the error: errc::argument for an object without a protocol; errc::foreign_exception
///                 for a Python exception, or an exception of the adapter; errc::out_of_memory for a MemoryError or
///                 std::bad_alloc; errc::copy_needed, errc::device and errors of ferry::from_dlpack, as for
///                 from_python; errors of try_from_capsule
template <class T, class BackEnd = host_back_end>
[[nodiscard]] result<T> try_from_python(PyObject* x, request const& req, BackEnd&& b = {}, reference* raised = nullptr,
                                        flags assumed = flags::read_only) noexcept {
    constexpr auto api = "ferry::python::try_from_python";
    auto const where = detail::in_python;
    if (!detail::is_main_interpreter()) return error{errc::argument, api, message{detail::in_sub_interpreter}, where};
    try {
        detail::imported got{.assumed = assumed};
        auto const done = detail::try_import(x, req, detail::importer_for<T>(b), api, got);
        if (!done) return done.error();
        return ferry::detail::attempt<T>("ferry::from_dlpack", where, [&](ferry::detail::record&) -> ferry::result<T> {
            return ferry::detail::adopt<T>(std::move(got.tensor), got.ready_on);
        });
    } catch (...) {
        return detail::caught_error(raised, api, where);
    }
}

}  // namespace FERRY_NAMESPACE::python
