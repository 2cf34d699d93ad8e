// The Python module.
#include "convert.hpp"

#include <ferry/python.hpp>
#ifdef MINITENSOR_HAS_CUDA
#include <ferry/python/cuda_back_end.hpp>
#endif
#include "minitensor_ferry.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <stdexcept>

namespace nb = nanobind;
using namespace nb::literals;
using namespace mt::python;
using mt::tensor;

namespace {

#ifdef MINITENSOR_HAS_CUDA
using back_end = ferry::python::cuda_back_end<>;

/// Copies layouts that are not compact to and from GPUs, which minitensor does not support itself.
void copy_strided(tensor const& to, tensor const& from, std::uintptr_t stream) {
    auto const dst = ferry::view_of(to);
    auto const src = ferry::view_of(from);
    auto const& gpu = dst.device().type == ferry::device_type::cuda ? dst : src;
    ferry::cuda::system.copy(ferry::make_copy_plan(dst, src), dst.writable_data(), dst.device(), src.data(),
                             src.device(),
                             ferry::stream_token::from_cuda_handle(stream).on_device(gpu.device()));
}
#else
using back_end = ferry::host_back_end;
#endif

mt::device device_or_own(tensor const& t, nb::handle device) {
    return device.is_none() ? t.device() : to_device(device);
}

tensor copied(tensor const& t, nb::handle device) {
    auto const where = device_or_own(t, device);
    ferry::python::without_gil const unlocked;
    return copy(t, where);
}

tensor zeros_like_shape(nb::handle shape, std::string_view dtype, nb::handle device) {
    auto extents = to_shape(shape);
    auto const type = mt::dtype_from_name(dtype);
    auto const where = to_device(device);
    ferry::python::without_gil const unlocked;
    return mt::zeros(type, std::move(extents), where);
}

void fill_with(tensor const& t, nb::handle value) {
    if (t.readonly()) throw std::invalid_argument{"this tensor is read-only"};
    auto const v = to_number(value, t.dtype());
    ferry::python::without_gil const unlocked;
    mt::fill(t, v);
}

nb::object item(tensor const& t) {
    if (t.size() != 1) throw std::invalid_argument{"item(): expected a tensor of exactly one element"};
    auto const near = readable(t);
    return from_number(decode(near.dtype(), load(near.dtype(), near.data(), 0)));
}

tensor transposed(tensor const& t, nb::args axes) {
    if (axes.size() == 1 && !PyIndex_Check(axes[0].ptr())) {
        if (axes[0].is_none()) return mt::transpose(t);
        auto order = to_shape(axes[0]);
        if (order.empty() && t.ndim() != 0) {
            throw std::invalid_argument{"transpose: expected each axis exactly once"};
        }
        return mt::transpose(t, std::move(order));
    }
    return mt::transpose(t, to_shape(axes));
}

std::size_t length(tensor const& t) {
    if (t.ndim() == 0) throw nb::type_error("a tensor without dimensions has no len()");
    return static_cast<std::size_t>(t.shape()[0]);
}

}  // namespace

NB_MODULE(_minitensor_of_main, m) {
    m.doc() = "The compiled part of minitensor.";
    nb::set_leak_warnings(false);  // Tensors in global variables at exit are not leaks
    nb::register_exception_translator([](std::exception_ptr const& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (mt::buffer_error const& e) {
            PyErr_SetString(PyExc_BufferError, e.what());
        } catch (ferry::error const&) {
            ferry::python::translate_exception();
        }
    });

    auto type = nb::class_<tensor>(
        m, "Tensor", nb::is_weak_referenceable(),
        "A strided array on a device. Created by asarray, empty, zeros, arange and from_dlpack.");
    type.def_prop_ro(
            "shape", [](tensor const& t) { return to_tuple(t.shape()); }, "The extents: a tuple.")
        .def_prop_ro(
            "strides", [](tensor const& t) { return to_tuple(t.strides()); },
            "The steps from one element to the next in each dimension, in elements: a tuple.")
        .def_prop_ro("ndim", &tensor::ndim, "The number of dimensions.")
        .def_prop_ro("size", &tensor::size, "The number of elements.")
        .def_prop_ro(
            "nbytes", &tensor::nbytes,
            "The size in bytes of the elements in a contiguous layout; packed types report their "
            "true size.")
        .def_prop_ro(
            "dtype", [](tensor const& t) { return mt::name(t.dtype()); },
            "The name of the element type: 'float32', 'bfloat16', …")
        .def_prop_ro(
            "device",
            [](tensor const& t) { return nb::make_tuple(t.device().type, t.device().id); },
            "The device of the elements: a pair (type, id) of ints; (1, 0) is the CPU.")
        .def_prop_ro(
            "data_ptr", [](tensor const& t) { return reinterpret_cast<std::uintptr_t>(t.data()); },
            "The address of the first element; 0 if there is none.")
        .def_prop_ro("readonly", &tensor::readonly,
                     "Whether the elements are read-only through this Tensor.")
        .def_prop_ro("sealed", [](tensor const& t) { return is_sealed(t); },
                     "Whether no process can write the elements: they are in memory that was "
                     "shared with `freeze`.")
        .def_prop_ro(
            "copied", &tensor::copied,
            "Whether the import that created this Tensor copied. False for all other Tensors, "
            "including views.")
        .def("__getitem__", &getitem, "key"_a.none(),
             "A view: ints, slices of any step and an ellipsis. Views of packed types start at "
             "byte boundaries (else ValueError).")
        .def("__len__", &length, "The extent of the first dimension.")
        .def(
            "__iter__",
            [](nb::handle self) {
                static_cast<void>(length(nb::cast<tensor const&>(self)));
                auto it = nb::steal(PySeqIter_New(self.ptr()));
                if (!it.is_valid()) throw nb::python_error{};
                return it;
            },
            "Views along the first dimension.")
        .def_prop_ro(
            "T", [](tensor const& t) { return mt::transpose(t); },
            "A view with the dimensions in reverse order.")
        .def("transpose", &transposed, "axes"_a,
             "A view with the dimensions in the order of `axes` (ints, or one sequence of them); "
             "without `axes`, reversed.")
        .def(
            "broadcast_to",
            [](tensor const& t, nb::handle shape) { return mt::broadcast_to(t, to_shape(shape)); },
            "shape"_a, "A read-only view, repeated to `shape` by zero strides.")
        .def("as_readonly", &mt::as_readonly, "A read-only view of the same elements.")
        .def("copy", &copied, "device"_a.none() = nb::none(),
             "A contiguous row-major copy, on the same device unless another is given.")
        .def("fill", &fill_with, "value"_a.none(),
             "Set all elements to a value. ValueError if the Tensor is read-only; OverflowError if "
             "an integer type cannot hold the value.")
        .def("tolist", &tolist, "Nested lists of Python numbers, for every dtype.")
        .def("item", &item, "The value of a Tensor of one element.")
        .def("__repr__", &mt::to_string, nb::call_guard<ferry::python::without_gil>());

    // [install]
    if (!ferry::python::install_dlpack<tensor>(
            reinterpret_cast<PyTypeObject*>(type.ptr()), [](PyObject* o) { return tensor_in(o); },
            [](tensor&& t) { return new_object(std::move(t)); }, back_end{})) {
        throw nb::python_error{};
    }
    // [/install]
#ifdef MINITENSOR_HAS_CUDA
    if (!ferry::python::install_cuda_array_interface<tensor>(
            reinterpret_cast<PyTypeObject*>(type.ptr()), [](PyObject* o) { return tensor_in(o); })) {
        throw nb::python_error{};
    }
    mt::use_strided_copy(&copy_strided);
#endif
    define_streams(m);
    define_columns(m);
    define_ipc(m);

    m.def(
        "asarray",
        [](nb::handle obj, std::optional<std::string_view> dtype, nb::handle device) {
            auto type = dtype ? std::optional{mt::dtype_from_name(*dtype)} : std::nullopt;
            return asarray(obj, type, to_device(device));
        },
        "obj"_a.none(), "dtype"_a = nb::none(), "device"_a = "cpu",
        "A new Tensor with the values of nested sequences, of a number, or of any object with the "
        "buffer protocol. Always copies.\n\n"
        "Without a dtype: the type of the buffer, or bool, int64, float64 or complex128 for Python "
        "numbers. ValueError for ragged sequences and for buffers of other types or without native "
        "byte order; OverflowError for integers that do not fit.");
    m.def(
        "empty",
        [](nb::handle shape, std::string_view dtype, nb::handle device) {
            auto const type = mt::dtype_from_name(dtype);
            auto const extents = to_shape(shape);
            auto const where = to_device(device);
            ferry::python::without_gil const unlocked;
            return tensor{type, extents, where};
        },
        "shape"_a, "dtype"_a = "float32", "device"_a = "cpu",
        "A new Tensor whose elements are not initialised. `shape`: an int or a sequence of ints.");
    m.def("zeros", &zeros_like_shape, "shape"_a, "dtype"_a = "float32", "device"_a = "cpu",
          "A new Tensor of zeros (of NaN in float8_e8m0fnu, which has no zero).");
    m.def(
        "arange",
        [](std::int64_t n, std::string_view dtype, nb::handle device) {
            auto const type = mt::dtype_from_name(dtype);
            auto const where = to_device(device);
            ferry::python::without_gil const unlocked;
            return mt::arange(n, type, where);
        },
        "n"_a, "dtype"_a = "int64", "device"_a = "cpu",
        "A new Tensor of 0, 1, …, n − 1. OverflowError if the dtype cannot hold n − 1.");
    m.def("live_bytes", &mt::live_bytes, nb::call_guard<ferry::python::without_gil>(),
          "The number of bytes that minitensor has allocated and not freed.");
}
