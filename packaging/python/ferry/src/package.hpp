// What the sources of the module share: the tensor and its back end.
#pragma once

#include <ferry/ferry.hpp>
#include <ferry/python.hpp>
#include <ferry/python/arrow_import.hpp>
#include <ferry/python/buffer.hpp>

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace package {

namespace nb = nanobind;

/// Elements in memory that another object owns. Never changes.
struct tensor {
    std::shared_ptr<ferry::managed_tensor const> owner;
    void* data = nullptr;
    ferry::data_type dtype;
    std::vector<std::int64_t> shape, strides;
    ferry::device device;
    ferry::flags bits = ferry::flags::none;
    ferry::stream_token ready = ferry::already_ready;
    bool copied = false;

    tensor(ferry::managed_tensor&& m, ferry::stream_token ready_on);
    [[nodiscard]] ferry::tensor_view view() const noexcept { return {data, dtype, shape, strides, device, bits}; }
};

/// Imports buffers and Arrow's columns as well.
struct back_end : ferry::host_back_end {
    [[nodiscard]] std::optional<ferry::python::detail::imported> import_other_protocol(PyObject* x) const;
};

/// Takes a new reference; throws if a Python error is set instead.
[[nodiscard]] inline nb::object checked(PyObject* made) {
    if (made == nullptr) throw nb::python_error{};
    return nb::steal(made);
}

/// Creates a Tensor or Column; returns null with a Python error set on failure.
template <class T>
[[nodiscard]] PyObject* new_object(T&& made) noexcept {
    try {
        return nb::cast(std::move(made)).release().ptr();
    } catch (nb::python_error& e) {
        e.restore();
    } catch (...) {
        if (PyErr_Occurred() == nullptr) PyErr_NoMemory();
    }
    return nullptr;
}

/// Returns the T in an object, or null for other objects.
template <class T>
[[nodiscard]] T* find(nb::handle o) {
    static nb::handle const type = nb::type<T>();  // nanobind looks it up by its C++ name
    if (!o.type().is(type) && !nb::isinstance<T>(o)) return nullptr;
    return nb::inst_ready(o) ? nb::inst_ptr<T>(o) : nullptr;
}

/// As find; throws a TypeError for other objects, and for those whose __init__ was not called.
template <class T>
[[nodiscard]] T* require(nb::handle o) {
    if (auto* const found = find<T>(o)) return found;
    PyErr_Format(PyExc_TypeError, "expected a %U: a derived class must call super().__init__",
                 nb::type_name(nb::type<T>()).ptr());
    throw nb::python_error{};
}

void define_tensor(nb::module_&);
void define_column(nb::module_&);
void define_ipc(nb::module_&);

}  // namespace package

template <>
struct ferry::array_traits<package::tensor> {
    static constexpr bool vector_elements = true, padded_elements = true;
    static tensor_view view(package::tensor const& t) { return t.view(); }
    static package::tensor share(package::tensor const& t) { return t; }
    static package::tensor adopt(managed_tensor m, stream_token ready) { return {std::move(m), ready}; }
    static stream_token ready_on(package::tensor const& t) { return t.ready; }
};
