// Conversions between Python objects and minitensor types.
#pragma once

#include <minitensor/minitensor.hpp>

#include <ferry/fwd.hpp>

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace mt::python {

namespace nb = nanobind;

/// Returns the Tensor in an object, or null for other objects.
[[nodiscard]] mt::tensor* tensor_in(nb::handle);

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

/// Converts a Python number of any kind, or an object with one element, such as a NumPy scalar or a Tensor without
/// dimensions. An integer of more than 64 bits becomes the nearest double if `to` is not an integer type.
[[nodiscard]] mt::number to_number(nb::handle, mt::dtype to);

[[nodiscard]] nb::object from_number(mt::number const&);

/// Converts an int or a sequence of ints.
[[nodiscard]] std::vector<std::int64_t> to_shape(nb::handle);

[[nodiscard]] nb::tuple to_tuple(std::vector<std::int64_t> const&);

/// Converts a device in any accepted form: "cpu", "cuda:1", a pair (type, id), or an array on the device.
[[nodiscard]] mt::device to_device(nb::handle);

[[nodiscard]] mt::tensor asarray(nb::handle, std::optional<mt::dtype>, mt::device);

/// Returns t[key].
[[nodiscard]] mt::tensor getitem(mt::tensor const&, nb::handle key);

/// Returns the elements in host memory, ready; releases the GIL while it waits.
[[nodiscard]] mt::tensor readable(mt::tensor const&);

/// Defines stream, current_stream, cuda_available, device_count and synchronize.
void define_streams(nb::module_&);

/// Defines Column.
void define_columns(nb::module_&);

/// Returns the Column in an object, or null for other objects.
[[nodiscard]] ferry::column const* column_in(nb::handle);

/// Returns whether no process can write the memory, which this process has attached or frozen.
[[nodiscard]] bool is_sealed(tensor const&);
[[nodiscard]] bool is_sealed(ferry::column const&);

/// Defines Shared, ipc_share and ipc_attach.
void define_ipc(nb::module_&);

/// Returns nested lists of Python numbers; one number for a tensor without dimensions.
[[nodiscard]] nb::object tolist(mt::tensor const&);

}  // namespace mt::python
