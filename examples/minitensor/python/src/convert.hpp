// Between Python objects and minitensor's.
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

/// The Tensor in an object; null if it is none.
[[nodiscard]] mt::tensor* tensor_in(nb::handle);

/// A new Tensor, or Column; null with a Python error set if there cannot be one.
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

/// A Python number of any kind, or something with one element: a NumPy scalar, a Tensor without
/// dimensions. Integers of more than 64 bits become the nearest double where `to` is not an integer
/// type.
[[nodiscard]] mt::number to_number(nb::handle, mt::dtype to);

[[nodiscard]] nb::object from_number(mt::number const&);

/// An int, or a sequence of ints.
[[nodiscard]] std::vector<std::int64_t> to_shape(nb::handle);

[[nodiscard]] nb::tuple to_tuple(std::vector<std::int64_t> const&);

/// A device as users write it: "cpu", "cuda:1", a pair (type, id), or an array that lives there.
[[nodiscard]] mt::device to_device(nb::handle);

[[nodiscard]] mt::tensor asarray(nb::handle, std::optional<mt::dtype>, mt::device);

/// t[key]
[[nodiscard]] mt::tensor getitem(mt::tensor const&, nb::handle key);

/// The same elements, finished, on the host; other threads run while it waits.
[[nodiscard]] mt::tensor readable(mt::tensor const&);

/// Defines stream, current_stream, cuda_available, device_count and synchronize.
void define_streams(nb::module_&);

/// Defines Column.
void define_columns(nb::module_&);

/// The Column in an object; null if it is none.
[[nodiscard]] ferry::column const* column_in(nb::handle);

/// Defines Shared, ipc_share and ipc_attach.
void define_ipc(nb::module_&);

/// Nested lists of Python numbers; one number for a tensor without dimensions.
[[nodiscard]] nb::object tolist(mt::tensor const&);

}  // namespace mt::python
