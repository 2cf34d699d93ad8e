// ferry: imports from Python objects without exceptions or Python errors, for callers that try several types.
#pragma once

#include <ferry/python/capsule.hpp>
#include <ferry/python/detail/back_end.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/error.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/base/result.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/from_dlpack.hpp>

#include <concepts>
#include <exception>
#include <new>
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// Removes the current Python error.
/// \return        errc::out_of_memory for a MemoryError, otherwise errc::foreign_exception
[[nodiscard]] FERRY_COLD inline error take_python_error(reference* raised, char const* api,
                                                        std::source_location where) noexcept {
    bool const is_memory = PyErr_ExceptionMatches(PyExc_MemoryError) != 0;
    if (raised != nullptr) *raised = take_exception();
    PyErr_Clear();
    return error{is_memory ? errc::out_of_memory : errc::foreign_exception, api,
                 message{"the producer raised a Python exception: pass `raised` to receive it, or call from_python"},
                 where};
}

/// Returns the error for the current C++ exception, and removes the Python error. Must be called in a catch block.
/// \return        error
[[nodiscard]] FERRY_COLD inline error caught_error(reference* raised, char const* api,
                                                   std::source_location where) noexcept {
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

}  // namespace detail

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
        if (PyCapsule_CheckExact(x) != 0) {
            auto taken = try_from_capsule(x, assumed);
            if (!taken) return taken.error();
            got.ready_on = detail::ready_in_capsule(*taken);
            got.tensor = *std::move(taken);
        } else {
            detail::import_object<T>(x, req, b, got);
            if (!got.tensor)
                return error{
                    errc::argument, api,
                    message{"the object has no __dlpack__ and is not a DLPack capsule: pass an array or a capsule"},
                    where};
            if (detail::is_copied_despite(x, req, got.tensor))
                return error{errc::copy_needed, api, message{detail::copied_text}, where};
        }
        if constexpr (std::same_as<T, managed_tensor>)
            if (req.placement == placement::any && detail::is_final(req, got.tensor)) return std::move(got.tensor);
        detail::gil_releasing_back_end releasing{b};
        auto const rest = detail::remaining(x, req, got.tensor);
        return ferry::try_from_dlpack<T>(std::move(got.tensor), rest, releasing, got.ready_on, where);
    } catch (...) {
        return detail::caught_error(raised, api, where);
    }
}

}  // namespace FERRY_NAMESPACE::python
