// Column: the Python type for Arrow arrays.
#include "package.hpp"

#include <ferry/column.hpp>
#include <ferry/python/arrow.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

namespace package {
namespace {

using namespace nb::literals;
using ferry::column;

/// Names may be arbitrary bytes; those that are not UTF-8 are decoded as surrogates.
nb::object text(std::string_view bytes) {
    return checked(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

nb::tuple children(column const& c) {
    nb::list all;
    for (int i = 0; i < c.child_count(); ++i) all.append(nb::cast(c.child(i)));
    return nb::tuple(all);
}

nb::dict metadata(column const& c) {
    nb::dict all;
    for (auto const& [key, value] : ferry::metadata_view{c.view().metadata()}) {
        nb::bytes const name{key.data(), key.size()};
        if (!all.contains(name)) all[name] = nb::bytes{value.data(), value.size()};  // the first value of a key is used
    }
    return all;
}

column slice(column const& c, nb::handle key) {
    if (!PySlice_Check(key.ptr()))
        throw nb::type_error(
            "a Column has slices only, col[a:b]: to read its items, pass it to a library such as pyarrow");
    Py_ssize_t start = 0, stop = 0, step = 0;
    if (PySlice_Unpack(key.ptr(), &start, &stop, &step) != 0) throw nb::python_error{};
    if (step != 1) throw std::invalid_argument{"a Column has slices of step 1 only, got " + std::to_string(step)};
    auto const length = PySlice_AdjustIndices(c.length(), &start, &stop, step);
    return c.slice(start, length);
}

void validate(column const& c, bool full) {
    ferry::python::without_gil const unlocked;
    ferry::validate(c, full ? ferry::validation::full : ferry::validation::structure);
}

column to(column const& c, nb::handle device) {
    auto const where = ferry::python::as_device(device.ptr());
    if (!where) throw nb::python_error{};
    ferry::python::without_gil const unlocked;
    return ferry::is_same_device(c.device(), *where) ? c : c.to(*where, ferry::host_only);
}

}  // namespace

void define_column(nb::module_& m) {
    auto type = nb::class_<column>(
        m, "Column", nb::is_weak_referenceable(),
        "An Arrow column of any type, nested or not. Immutable; shares its memory with slices, children "
        "and exports, each of which keeps the memory alive. Created by from_arrow.");
    type.def_prop_ro(
            "type", [](column const& c) { return text(c.format()); },
            "Arrow's format string: 'i', 'u', '+l', …; for a dictionary column, the format of its indices; for an "
            "extension type, the format of its storage.")
        .def_prop_ro(
            "dictionary", [](column const& c) { return c.has_dictionary() ? nb::cast(c.dictionary()) : nb::none(); },
            "The values of the dictionary, or None.")
        .def_prop_ro("metadata", &metadata,
                     "The metadata of the schema: a dict of bytes; the first value of a repeated key.")
        .def_prop_ro(
            "name", [](column const& c) { return text(c.name()); }, "The name in the schema; '' if it has none.")
        .def_prop_ro(
            "nullable", [](column const& c) { return c.view().is_nullable(); }, "Whether the schema allows nulls.")
        .def_prop_ro(
            "length", [](column const& c) { return c.length(); }, "The number of items.")
        .def_prop_ro(
            "null_count", [](column const& c) { return c.null_count(); },
            "The number of null items; counted if it is unknown.")
        .def_prop_ro(
            "offset", [](column const& c) { return c.offset(); },
            "The number of items before the first one, in every buffer.")
        .def_prop_ro("children", &children,
                     "The child Columns, a tuple, as they are stored: the offset of this Column is not applied.")
        .def_prop_ro(
            "device", [](column const& c) { return nb::make_tuple(static_cast<int>(c.device().type), c.device().id); },
            "The device of the buffers: a pair (type, id) of ints; (1, 0) is the CPU.")
        .def(
            "__len__", [](column const& c) { return c.length(); }, "The number of items.")
        .def("__getitem__", &slice, "key"_a.none(), "A slice of step 1, on the same buffers.")
        .def("validate", &validate, "full"_a = false,
             "Raise a ValueError if the column is invalid. Checks its structure and, with `full`, also its values.")
        .def("to", &to, "device"_a.none(),
             "The column on another device, or the column itself if it is on that device.")
        .def("__repr__", [](column const& c) {
            return nb::str("<ferry.Column {!r} type={!r} length={} offset={}>")
                .format(text(c.name()), text(c.format()), c.length(), c.offset());
        });
    if (!ferry::python::install_arrow(
            reinterpret_cast<PyTypeObject*>(type.ptr()),
            [](PyObject* o) { return static_cast<column const*>(find<column>(o)); },
            [](column&& c) { return new_object(std::move(c)); }, ferry::host_back_end{})) {
        throw nb::python_error{};
    }
}

}  // namespace package
