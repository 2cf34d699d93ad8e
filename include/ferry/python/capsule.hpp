// ferry: capsules: how a struct crosses Python (R60–R63).
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/tensor/legacy.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

namespace ferry::inline v0::python {
namespace detail {

/// The names of R60; CPython keeps the pointers, so they are static.
template <ferry::detail::managed_struct Raw>
inline constexpr char const* capsule_name = "dltensor_versioned";
template <>
inline constexpr char const* capsule_name<DLManagedTensor> = "dltensor";
template <ferry::detail::managed_struct Raw>
inline constexpr char const* used_capsule_name = "used_dltensor_versioned";
template <>
inline constexpr char const* used_capsule_name<DLManagedTensor> = "used_dltensor";

/// Runs the deleter of a capsule that nobody consumed. A Python error in flight survives (R61), whatever the deleter
/// does.
template <ferry::detail::managed_struct Raw>
void destroy_capsule(PyObject* capsule) noexcept {
    if (PyCapsule_IsValid(capsule, capsule_name<Raw>) == 0) return;  // used: its consumer owes the deleter (R62)
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    auto* raw = static_cast<Raw*>(PyCapsule_GetPointer(capsule, capsule_name<Raw>));
    if (raw != nullptr && raw->deleter != nullptr) raw->deleter(raw);
    PyErr_Restore(type, value, trace);
}

/// A new capsule that owns `raw`; on failure the deleter has run and a Python error is set.
template <ferry::detail::managed_struct Raw>
[[nodiscard]] PyObject* make_capsule(Raw* raw) {
    PyObject* capsule = PyCapsule_New(raw, capsule_name<Raw>, &destroy_capsule<Raw>);
    if (capsule == nullptr) {
        if (raw->deleter != nullptr) raw->deleter(raw);
        throw error_is_set{};
    }
    return capsule;
}

/// The struct in a capsule of this kind; null, without an error, when it is of another.
template <ferry::detail::managed_struct Raw>
[[nodiscard]] Raw* struct_in(PyObject* capsule) noexcept {
    // Asked first: an exception that PyCapsule_GetPointer sets is an object, whose allocation may run finalisers.
    if (PyCapsule_IsValid(capsule, capsule_name<Raw>) == 0) return nullptr;
    return static_cast<Raw*>(PyCapsule_GetPointer(capsule, capsule_name<Raw>));
}

/// Takes the struct out of a capsule of this kind by renaming the capsule (R62): from then on one deleter call is owed.
/// Null, without an error, when the capsule is of another kind or has been consumed.
///
/// Reading and renaming are one step: nothing between them runs Python code, allocates an object or releases the GIL,
/// so that only one of two threads that take a capsule gets the struct. PyCapsule_SetName alone does not test and set:
/// without a GIL, this body would need a critical section on the capsule.
///
/// \throws error_is_set  the capsule could not be renamed, and is as it was
template <ferry::detail::managed_struct Raw>
[[nodiscard]] Raw* take(PyObject* capsule) {
    Raw* const raw = struct_in<Raw>(capsule);
    if (raw != nullptr && PyCapsule_SetName(capsule, used_capsule_name<Raw>) != 0) throw error_is_set{};
    return raw;
}

}  // namespace detail

/// The tensor in a capsule, versioned or legacy, whatever was asked for (R58); legacy ones arrive read-only (R15). The
/// capsule is used up (R63); when it is not a capsule of DLPack, or used already, it is left alone.
///
/// \throws error_is_set  TypeError, ValueError;  what from_dlpack throws, after the deleter has run
[[nodiscard]] inline managed_tensor from_capsule(PyObject* capsule) {
    if (PyCapsule_CheckExact(capsule) == 0) raise(PyExc_TypeError, "__dlpack__ did not return a capsule");
    if (auto* const raw = detail::take<DLManagedTensorVersioned>(capsule)) return ferry::from_dlpack(raw);
    if (auto* const raw = detail::take<DLManagedTensor>(capsule)) return ferry::from_dlpack(raw);
    if (PyCapsule_IsValid(capsule, detail::used_capsule_name<DLManagedTensorVersioned>) != 0 ||
        PyCapsule_IsValid(capsule, detail::used_capsule_name<DLManagedTensor>) != 0)
        raise(PyExc_ValueError,
              "the capsule has been consumed already; each is good for one import (R63): call __dlpack__ again");
    raise(PyExc_ValueError,
          "the capsule is not one of DLPack: its name is neither 'dltensor_versioned' nor 'dltensor' (R60)");
}

}  // namespace ferry::inline v0::python
