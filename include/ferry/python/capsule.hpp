// ferry: capsules that contain DLPack structs (R60–R63).
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/base/result.hpp>
#include <ferry/base/version.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <optional>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// The name of a capsule (R60). It has static storage duration, because CPython stores the pointer.
template <ferry::detail::managed_struct Raw>
inline constexpr char const* capsule_name = "dltensor_versioned";
template <>
inline constexpr char const* capsule_name<DLManagedTensor> = "dltensor";
template <ferry::detail::managed_struct Raw>
inline constexpr char const* used_capsule_name = "used_dltensor_versioned";
template <>
inline constexpr char const* used_capsule_name<DLManagedTensor> = "used_dltensor";

/// Destructor of a capsule: calls the deleter unless the capsule has been consumed. Preserves the current Python error
/// (R61).
template <ferry::detail::managed_struct Raw>
void destroy_capsule(PyObject* capsule) noexcept {
    if (PyCapsule_IsValid(capsule, capsule_name<Raw>) == 0) return;  // consumed: the consumer calls the deleter (R62)
    kept_error const kept;
    auto* raw = static_cast<Raw*>(PyCapsule_GetPointer(capsule, capsule_name<Raw>));
    if (raw != nullptr && raw->deleter != nullptr) raw->deleter(raw);
}

/// Creates a capsule.
/// \return     new reference
/// \throws error_is_set  MemoryError; the deleter has run
template <ferry::detail::managed_struct Raw>
[[nodiscard]] PyObject* make_capsule(Raw* raw) {
    PyObject* capsule = PyCapsule_New(raw, capsule_name<Raw>, &destroy_capsule<Raw>);
    if (capsule == nullptr) {
        if (raw->deleter != nullptr) raw->deleter(raw);
        throw error_is_set{};
    }
    return capsule;
}

/// Returns the struct in a capsule, without consuming it.
/// \return         the struct, owned by the capsule; null, without a Python error, if the capsule has another name
template <ferry::detail::managed_struct Raw>
[[nodiscard]] Raw* struct_in(PyObject* capsule) noexcept {
    // Checked first: PyCapsule_GetPointer would allocate an exception, which may run finalisers.
    if (PyCapsule_IsValid(capsule, capsule_name<Raw>) == 0) return nullptr;
    return static_cast<Raw*>(PyCapsule_GetPointer(capsule, capsule_name<Raw>));
}

/// Consumes a capsule by renaming it (R62). No Python code runs, no object is allocated and neither the GIL nor the
/// critical section is released between reading and renaming, so that only one of two threads obtains the struct.
/// \return         the struct, whose deleter the caller must call; null, without a Python error, if the capsule has
///                 another name or has been consumed
template <ferry::detail::managed_struct Raw>
[[nodiscard]] Raw* take(PyObject* capsule) {
    critical_section const alone{capsule};
    Raw* const raw = struct_in<Raw>(capsule);
    if (raw != nullptr && PyCapsule_SetName(capsule, used_capsule_name<Raw>) != 0) throw error_is_set{};
    return raw;
}

/// Consumes a capsule and validates its tensor.
/// \return         tensor; empty if the capsule contains no struct, or after an error that `r` records
[[nodiscard]] FERRY_NOINLINE inline managed_tensor take_tensor(PyObject* capsule, flags assumed,
                                                               ferry::detail::reporter r) {
    if (auto* const raw = take<DLManagedTensorVersioned>(capsule)) return ferry::detail::take<true>(raw, r);
    if (auto* const raw = take<DLManagedTensor>(capsule)) return ferry::detail::take<true>(raw, r, assumed);
    return {};
}

/// Returns whether an object is a DLPack capsule that has been consumed (R62).
[[nodiscard]] inline bool is_consumed(PyObject* capsule) noexcept {
    return PyCapsule_IsValid(capsule, used_capsule_name<DLManagedTensorVersioned>) != 0 ||
           PyCapsule_IsValid(capsule, used_capsule_name<DLManagedTensor>) != 0;
}

/// Raises a ValueError for a capsule that contains no struct, or no longer contains it.
[[noreturn]] FERRY_COLD inline void raise_unusable(PyObject* capsule) {
    raise(PyExc_ValueError, "capsule",
          is_consumed(capsule)
              ? ": the capsule has been consumed already; a capsule can be imported only once: call __dlpack__ again"
              : ": not a DLPack capsule: expected the name 'dltensor_versioned' or 'dltensor': call __dlpack__");
}

/// Returns a view of the tensor in a capsule. In a build without the GIL, another thread may consume the capsule unless
/// the caller has a critical section on it. See view_in_capsule.
[[nodiscard]] FERRY_NOINLINE inline std::optional<tensor_view> look_into(PyObject* capsule, flags assumed) noexcept {
    ferry::detail::record ignored{"view_in_capsule", in_python};
    if (auto const* const raw = struct_in<DLManagedTensorVersioned>(capsule);
        raw && ferry::detail::check_managed<true>(raw, ignored))
        return tensor_view{raw->dl_tensor, flags{raw->flags}};
    if (auto const* const raw = struct_in<DLManagedTensor>(capsule);
        raw && ferry::detail::check_tensor_by_call(raw->dl_tensor, assumed, ignored))
        return tensor_view{raw->dl_tensor, assumed};
    return {};
}

/// See from_capsule.
[[nodiscard]] inline managed_tensor consume_capsule(PyObject* capsule, flags assumed) {
    if (PyCapsule_CheckExact(capsule) == 0) raise(PyExc_TypeError, "__dlpack__", " did not return a capsule");
    auto tensor = take_tensor(capsule, assumed, {"ferry::from_dlpack", in_python});
    if (!tensor) raise_unusable(capsule);
    return tensor;
}

}  // namespace detail

/// Returns a view of the tensor in a capsule, without consuming the capsule (R62). Requires the GIL.
///
/// \param capsule  any object
/// \param assumed  flags of a legacy tensor, as for from_capsule
/// \return         view, valid until the capsule is destroyed or consumed, which another thread may do without the GIL;
///                 std::nullopt for other objects and for capsules that `from_capsule` does not accept
[[nodiscard]] inline std::optional<tensor_view> view_in_capsule(PyObject* capsule,
                                                                flags assumed = flags::read_only) noexcept {
    if (PyCapsule_CheckExact(capsule) == 0) return {};
    detail::critical_section const alone{capsule};
    return detail::look_into(capsule, assumed);
}

/// Calls a function with the view of the tensor in a capsule. Without the GIL, no other thread consumes the capsule
/// during the call, which must not call Python. Requires the GIL.
///
/// \param capsule  any object
/// \param assumed  flags of a legacy tensor, as for from_capsule
/// \param accepts  function of a tensor_view that returns a bool, and does not throw
/// \return         result of the function; false for objects of which view_in_capsule returns no view
template <class F>
[[nodiscard]] bool view_in_capsule(PyObject* capsule, flags assumed, F&& accepts) noexcept {
    if (PyCapsule_CheckExact(capsule) == 0) return false;
    detail::critical_section const alone{capsule};
    auto const v = detail::look_into(capsule, assumed);
    return v && accepts(*v);
}

/// Imports the tensor of a capsule, which may be versioned or legacy regardless of the version that was requested from
/// the producer (R58). The capsule is consumed (R63). Requires the GIL.
///
/// \param capsule  DLPack capsule; left unchanged if it has been consumed or is another kind of capsule
/// \param assumed  flags of a legacy tensor, whose struct contains none: read-only unless the documentation of the
///                 producer states that the data may be written (R15)
/// \return         tensor
/// \throws error_is_set  TypeError: not a capsule;  ValueError: not a DLPack capsule, or an already consumed one
/// \throws error  errors of ferry::from_dlpack; the deleter has run
[[nodiscard]] inline managed_tensor from_capsule(PyObject* capsule, flags assumed = flags::read_only) {
    detail::require_main_interpreter();
    return detail::consume_capsule(capsule, assumed);
}

/// Imports the tensor of a capsule as from_capsule does, but neither throws nor sets a Python error. Requires the GIL.
///
/// \param capsule  any object; left unchanged unless it is a DLPack capsule that has not been consumed
/// \param assumed  flags of a legacy tensor, as for from_capsule
/// \return         the tensor, or the error: errc::consumed for a consumed capsule; errc::argument for another object;
///                 errors of ferry::from_dlpack, after which the deleter has run
[[nodiscard]] inline result<managed_tensor> try_from_capsule(PyObject* capsule,
                                                             flags assumed = flags::read_only) noexcept {
    auto const refuse = [](errc code, message const& text) {
        return error{code, "ferry::python::try_from_capsule", text, detail::in_python};
    };
    if (!detail::is_main_interpreter()) return refuse(errc::argument, detail::in_sub_interpreter);
    if (PyCapsule_CheckExact(capsule) == 0) return refuse(errc::argument, "not a capsule: call __dlpack__");
    try {
        auto got = ferry::detail::attempt<managed_tensor>(
            "ferry::from_dlpack", detail::in_python,
            [=](ferry::detail::reporter r) { return detail::take_tensor(capsule, assumed, r); });
        if (!got || *got) return got;
    } catch (error_is_set const&) {
        PyErr_Clear();
        return refuse(errc::argument, "the capsule could not be renamed (R62): call __dlpack__ again");
    }
    if (detail::is_consumed(capsule))
        return refuse(errc::consumed, "the capsule has been consumed already (R63): call __dlpack__ again");
    return refuse(errc::argument, "not a DLPack capsule (R60): call __dlpack__");
}

/// Creates a capsule that owns a tensor. Requires the GIL.
///
/// \param tensor       tensor; unchanged if a ferry::error or std::bad_alloc is thrown, otherwise empty afterwards
/// \param max_version  newest version that the consumer supports (R4); version::legacy creates a legacy capsule
/// \return             new reference
/// \throws error_is_set    MemoryError; the deleter has run
/// \throws error           errc::consumed for an empty tensor; errors of managed_tensor::release_legacy
/// \throws std::bad_alloc  when the allocation of a legacy struct fails
[[nodiscard]] inline PyObject* to_capsule(managed_tensor&& tensor, version max_version = version::current) {
    detail::require_main_interpreter();
    if (max_version.is_legacy()) return detail::make_capsule(tensor.release_legacy());
    static_cast<void>(tensor.view());  // throws errc::consumed
    return detail::make_capsule(tensor.release());
}

}  // namespace FERRY_NAMESPACE::python
