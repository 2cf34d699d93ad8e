// Column: the Python type for Arrow arrays, which holds a ferry::column.
#include "convert.hpp"

#include <ferry/python.hpp>
#include <ferry/python/arrow.hpp>
#ifdef MINITENSOR_HAS_CUDA
#include <ferry/cuda/arrow.hpp>
#include <ferry/python/cuda_back_end.hpp>
#include <ferry/python/cuda_column_interface.hpp>
#endif
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>

#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace mt::python {
namespace {

using namespace nb::literals;
using ferry::column;

#ifdef MINITENSOR_HAS_CUDA
using back_end = ferry::python::cuda_back_end<ferry::cuda::arrow_back_end>;
#else
using back_end = ferry::host_back_end;
#endif

/// Takes a new reference; throws if a Python error is set instead.
nb::object checked(PyObject* made) {
    if (made == nullptr) throw nb::python_error{};
    return nb::steal(made);
}

/// Names may be arbitrary bytes; those that are not UTF-8 are decoded as surrogates.
nb::object text(std::string_view bytes) {
    return checked(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

nb::object bytes(std::string_view b) {
    return checked(PyBytes_FromStringAndSize(b.data(), static_cast<Py_ssize_t>(b.size())));
}

nb::object object_of(column&& c) {
    return checked(new_object(std::move(c)));
}

nb::tuple children(column const& c) {
    auto all = checked(PyTuple_New(c.child_count()));
    for (int i = 0; i < c.child_count(); ++i) {
        PyTuple_SET_ITEM(all.ptr(), i, object_of(c.child(i)).release().ptr());
    }
    return nb::borrow<nb::tuple>(all);
}

nb::dict metadata(column const& c) {
    auto const all = checked(PyDict_New());
    for (auto const& [key, value] : ferry::metadata_view{c.view().metadata()}) {
        // If a key occurs several times, the first value is used, as in metadata_view::find and pyarrow.
        if (PyDict_SetDefault(all.ptr(), bytes(key).ptr(), bytes(value).ptr()) == nullptr) throw nb::python_error{};
    }
    return nb::borrow<nb::dict>(all);
}

column slice(column const& c, nb::handle key) {
    if (!PySlice_Check(key.ptr()))
        throw nb::type_error("a Column supports only slices, col[a:b]: to read its items, pass it to a library such as pyarrow");
    Py_ssize_t start = 0;
    Py_ssize_t stop = 0;
    Py_ssize_t step = 0;
    if (PySlice_Unpack(key.ptr(), &start, &stop, &step) != 0) throw nb::python_error{};
    if (step != 1) throw std::invalid_argument{"a Column supports only slices of step 1, got " + std::to_string(step)};
    auto const length = PySlice_AdjustIndices(c.length(), &start, &stop, step);
    return c.slice(start, length);
}

void validate(column const& c, bool full) {
    ferry::python::without_gil const unlocked;
    ferry::validate(c, full ? ferry::validation::full : ferry::validation::structure);
}

/// Returns an imported column as an object. \throws buffer_error if its device does not exist
PyObject* new_column(column&& c) {
    static_cast<void>(normalised(c.device()));
    return new_object(std::move(c));
}

column to(column const& c, nb::handle device) {
    auto const where = normalised(to_device(device));
    ferry::device const wanted{static_cast<ferry::device_type>(where.type), where.id};
    ferry::python::without_gil const unlocked;
    if (c.view().is_mixed()) return c.to(wanted, back_end{});
    if (ferry::is_same_device(c.device(), wanted)) return c;
    // Compacted on the host, before the copy or after it.
    if (ferry::is_host_accessible(c.device())) return ferry::compact(c).to(wanted, back_end{});
    auto made = c.to(wanted, back_end{});
    return ferry::is_host_accessible(wanted) && made.offset() != 0 ? ferry::compact(made) : made;
}

/// The chunks of an object with a stream, which are not joined.
nb::object chunks_from_arrow(nb::handle x) {
    return checked(ferry::python::guarded([&] {
        auto const all = ferry::python::chunked_from_python(x.ptr(), back_end{});
        auto const count = static_cast<Py_ssize_t>(all.chunks().size());
        auto made = checked(PyTuple_New(count));
        for (Py_ssize_t i = 0; i < count; ++i)
            PyTuple_SET_ITEM(made.ptr(), i, checked(new_column(column{all.chunks()[static_cast<std::size_t>(i)]})).release().ptr());
        return made.release().ptr();
    }));
}

nb::object from_dlpack(nb::handle x, bool fixed_shape_tensor) {
    return checked(ferry::python::guarded([&] {
        auto tensor = ferry::python::from_python<ferry::managed_tensor>(x.ptr(), {}, back_end{});
        auto const items = fixed_shape_tensor ? ferry::tensor_items::fixed_shape_tensor : ferry::tensor_items::lists;
        return new_column(ferry::from_tensors(std::move(tensor), {}, back_end{}, {}, items));
    }));
}

}  // namespace

column const* column_in(nb::handle o) {
    static nb::handle const type = nb::type<column>();
    if (!o.type().is(type) && !nb::isinstance<column>(o)) return nullptr;
    return nb::inst_ready(o) ? nb::inst_ptr<column>(o) : nullptr;
}

void define_columns(nb::module_& m) {
    auto type = nb::class_<column>(
        m, "Column", nb::is_weak_referenceable(),
        "An Arrow column of any type, nested or not. Immutable; shares its memory with slices, children and exports, each of which keeps "
        "the memory alive. Created by from_arrow.");
    type.def_prop_ro("type", [](column const& c) { return text(c.format()); },
                     "Arrow's format string: 'i', 'u', '+l', …; for a dictionary column, the format of its indices; for an "
                     "extension type, the format of its storage.")
        .def_prop_ro("dictionary", [](column const& c) { return c.has_dictionary() ? object_of(c.dictionary()) : nb::none(); },
                     "The values of the dictionary, or None.")
        .def_prop_ro("metadata", &metadata, "The metadata of the schema: a dict of bytes; the first value of a repeated key.")
        .def_prop_ro("name", [](column const& c) { return text(c.name()); }, "The name in the schema; '' if it has none.")
        .def_prop_ro("nullable", [](column const& c) { return c.view().is_nullable(); }, "Whether the schema allows nulls.")
        .def_prop_ro("length", [](column const& c) { return c.length(); }, "The number of items.")
        .def_prop_ro("null_count", [](column const& c) { return c.null_count(); }, "The number of null items; counted if it is unknown.")
        .def_prop_ro("offset", [](column const& c) { return c.offset(); }, "The number of items before the first one, in every buffer.")
        .def_prop_ro("children", &children,
                     "The child Columns, a tuple, as they are stored: the offset of this Column is not applied.")
        .def_prop_ro("device", [](column const& c) { return nb::make_tuple(static_cast<int>(c.device().type), c.device().id); },
                     "The device of the buffers: a pair (type, id) of ints; (1, 0) is the CPU.")
        .def_prop_ro("sealed", [](column const& c) { return is_sealed(c); },
                     "Whether no process can write the buffers: they are in memory that was shared with `freeze`.")
        .def("__len__", [](column const& c) { return c.length(); }, "The number of items.")
        .def("__getitem__", &slice, "key"_a.none(), "A slice of step 1, on the same buffers.")
        .def("validate", &validate, "full"_a = false,
             "Raise a ValueError if the column is invalid. Checks its structure and, with `full`, also its values.")
        .def("to", &to, "device"_a.none(),
             "Return a compacted copy of the column on another device, or the column itself if it is on that device.")
        .def_static("chunks_from_arrow", &chunks_from_arrow, "x"_a.none(),
                    "Columns on the chunks of an object with __arrow_c_stream__ or __arrow_c_device_stream__, a tuple. The chunks are not "
                    "joined; an array is one chunk.")
        .def_static("from_dlpack", &from_dlpack, "x"_a.none(), nb::kw_only(), "fixed_shape_tensor"_a = false,
                    "A Column on the memory of a tensor of numbers, which must not be written any more. Each dimension after the first becomes "
                    "fixed-size lists, or all of them Arrow's extension type arrow.fixed_shape_tensor.")
        .def("__repr__", [](column const& c) {
            return nb::str("<Column {!r} type={!r} length={} offset={}>").format(text(c.name()), text(c.format()), c.length(), c.offset());
        });
    // [install]
    if (!ferry::python::install_arrow(
            reinterpret_cast<PyTypeObject*>(type.ptr()), [](PyObject* o) { return column_in(o); },
            [](column&& c) { return new_column(std::move(c)); }, back_end{})) {
        throw nb::python_error{};
    }
    // [/install]
#ifdef MINITENSOR_HAS_CUDA
    // The columns are ready: their copies and imports have ended.
    if (!ferry::python::install_column_cuda_array_interface(
            reinterpret_cast<PyTypeObject*>(type.ptr()), [](PyObject* o) { return column_in(o); },
            [](column const&) { return ferry::stream_token{}; })) {
        throw nb::python_error{};
    }
#endif
}

}  // namespace mt::python
