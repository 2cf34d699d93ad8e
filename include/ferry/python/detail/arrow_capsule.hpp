// ferry: PyCapsules that contain Arrow's C structs: "arrow_schema", "arrow_array", "arrow_device_array",
// "arrow_array_stream" and "arrow_device_array_stream".
#pragma once

#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/abi/arrow.hpp>
#include <ferry/arrow/detail/owned.hpp>

#include <concepts>
#include <memory>
#include <utility>

namespace FERRY_NAMESPACE::python::detail {

template <class T>
concept arrow_struct =
    std::same_as<T, ArrowSchema> || std::same_as<T, ArrowArray> || std::same_as<T, ArrowDeviceArray> ||
    std::same_as<T, ArrowArrayStream> || std::same_as<T, ArrowDeviceArrayStream>;

/// The capsule names of Arrow's PyCapsule interface. They have static storage duration, because CPython stores the
/// pointers.
template <arrow_struct T>
inline constexpr char const* arrow_capsule_name = "arrow_schema";
template <>
inline constexpr char const* arrow_capsule_name<ArrowArray> = "arrow_array";
template <>
inline constexpr char const* arrow_capsule_name<ArrowDeviceArray> = "arrow_device_array";
template <>
inline constexpr char const* arrow_capsule_name<ArrowArrayStream> = "arrow_array_stream";
template <>
inline constexpr char const* arrow_capsule_name<ArrowDeviceArrayStream> = "arrow_device_array_stream";

/// Releases the struct of a capsule, unless a consumer has moved it out. The current Python error is preserved.
template <arrow_struct T>
void destroy_arrow_capsule(PyObject* capsule) noexcept {
    kept_error const kept;
    delete static_cast<ferry::detail::owned<T>*>(PyCapsule_GetContext(capsule));
}

/// Returns a new capsule that owns the struct, which is moved from. On failure the struct is released.
template <arrow_struct T>
[[nodiscard]] reference make_arrow_capsule(T& from) {
    ferry::detail::owned<T> moved{from};
    require_main_interpreter();
    auto kept = std::make_unique<ferry::detail::owned<T>>(std::move(moved));
    reference capsule{PyCapsule_New(&kept->raw, arrow_capsule_name<T>, nullptr)};
    if (!capsule || PyCapsule_SetContext(capsule.get(), kept.get()) != 0) throw error_is_set{};
    kept.release();
    PyCapsule_SetDestructor(capsule.get(), &destroy_arrow_capsule<T>);
    return capsule;
}

/// Returns the struct in a capsule; the capsule still owns it.
/// \throws error_is_set  TypeError: not a capsule whose name is arrow_capsule_name<T>
template <arrow_struct T>
[[nodiscard]] T* struct_in(PyObject* capsule, char const* method) {
    if (PyCapsule_IsValid(capsule, arrow_capsule_name<T>) == 0) {
        char const* const found = PyCapsule_CheckExact(capsule) != 0 ? PyCapsule_GetName(capsule) : nullptr;
        PyErr_Clear();
        if (found != nullptr)
            PyErr_Format(PyExc_TypeError, "%s: expected a capsule '%s', got a capsule '%.50s'", method,
                         arrow_capsule_name<T>, found);
        else
            PyErr_Format(PyExc_TypeError, "%s: expected a capsule '%s', got %.100s", method, arrow_capsule_name<T>,
                         type_name{Py_TYPE(capsule)}.text());
        throw error_is_set{};
    }
    return static_cast<T*>(PyCapsule_GetPointer(capsule, arrow_capsule_name<T>));
}

}  // namespace FERRY_NAMESPACE::python::detail
