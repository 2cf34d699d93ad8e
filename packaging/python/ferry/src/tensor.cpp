// Tensor, from_dlpack, to_host and to_device.
#include "package.hpp"

#include <ferry/column/dlpack.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/python/arrow.hpp>

#include <nanobind/stl/string.h>

#include <array>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>

namespace package {
namespace {

using namespace nb::literals;

nb::tuple to_tuple(std::vector<std::int64_t> const& values) {
    auto all = checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
    for (std::size_t i = 0; i < values.size(); ++i)
        PyTuple_SET_ITEM(all.ptr(), static_cast<Py_ssize_t>(i), nb::int_(values[i]).release().ptr());
    return nb::borrow<nb::tuple>(all);
}

std::string dtype_of(tensor const& t) { return (ferry::inplace_text{} << t.dtype).c_str(); }

/// Returns t[key].
tensor select(tensor const& t, nb::handle key) {
    auto const keys = nb::isinstance<nb::tuple>(key) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(key);
    auto const rank = t.shape.size();
    std::size_t dots = 0;
    for (nb::handle const k : keys) dots += k.is(Py_Ellipsis) ? 1u : 0u;
    if (dots > 1) throw nb::index_error("an index has at most one ellipsis");
    if (keys.size() - dots > rank)
        throw nb::index_error(("too many indices: the tensor has " + std::to_string(rank) + " dimensions").c_str());
    tensor out = t;
    out.shape.clear(), out.strides.clear(), out.copied = false;
    bool const is_empty = t.view().is_empty();  // its strides may have any value
    std::int64_t offset = 0;
    std::size_t d = 0;
    auto const keep = [&](std::int64_t extent, std::int64_t stride) {
        out.shape.push_back(extent), out.strides.push_back(stride);
    };
    auto const keep_until = [&](std::size_t end) {
        for (; d < end; ++d) keep(t.shape[d], t.strides[d]);
    };
    for (std::size_t i = 0; i < keys.size(); ++i) {
        nb::handle const k = keys[i];
        if (k.is(Py_Ellipsis)) {
            keep_until(rank - (keys.size() - i - 1));
            continue;
        }
        auto const extent = t.shape[d], stride = is_empty ? 0 : t.strides[d];
        if (PySlice_Check(k.ptr())) {
            Py_ssize_t first = 0, last = 0, step = 0;
            if (PySlice_Unpack(k.ptr(), &first, &last, &step) != 0) throw nb::python_error{};
            auto const n = PySlice_AdjustIndices(extent, &first, &last, step);
            if (n > 0) offset += first * stride;
            keep(n, n > 1 ? stride * step : stride);  // with one element, the product may overflow
        } else if (PyIndex_Check(k.ptr()) && !PyBool_Check(k.ptr())) {
            auto n = PyNumber_AsSsize_t(k.ptr(), PyExc_IndexError);
            if (n == -1 && PyErr_Occurred() != nullptr) throw nb::python_error{};
            n += n < 0 ? extent : 0;
            if (n < 0 || n >= extent)
                throw nb::index_error(
                    ("index out of bounds for dimension " + std::to_string(d) + " of extent " + std::to_string(extent))
                        .c_str());
            offset += n * stride;
        } else {
            throw nb::type_error(
                "expected ints, slices and at most one ellipsis: for other indices, use np.asarray(t)");
        }
        ++d;
    }
    keep_until(rank);
    if (out.view().is_empty()) return out;
    auto const bits = offset * ferry::bits_per_element(t.dtype, t.view().is_padded());
    if (bits % 8 != 0) throw nb::value_error("the first packed element of a view must begin at a whole byte");
    out.data = static_cast<char*>(t.data) + bits / 8;
    return out;
}

tensor transposed(tensor const& t) {
    tensor out = t;
    out.shape.assign(t.shape.rbegin(), t.shape.rend()), out.strides.assign(t.strides.rbegin(), t.strides.rend());
    out.copied = false;
    return out;
}

std::size_t length(tensor const& t) {
    if (t.shape.empty()) throw nb::type_error("a tensor without dimensions has no len()");
    return static_cast<std::size_t>(t.shape[0]);
}

std::string to_string(tensor const& t) {
    ferry::inplace_text out{"<ferry.Tensor "};
    out << t.dtype << " (";
    for (std::size_t i = 0; i < t.shape.size(); ++i) out << (i != 0 ? ", " : "") << t.shape[i];
    out << (t.shape.size() == 1 ? ",) on " : ") on ") << ferry::name(t.device.type);
    if (!ferry::is_host_accessible(t.device)) out << ":" << t.device.id;
    if (ferry::has(t.bits, ferry::flags::read_only)) out << ", read-only";
    return (out << ">").c_str();
}

/// Sets all elements: Python's struct converts the value.
void fill(nb::handle self, nb::handle value) {
    auto const& t = nb::cast<tensor const&>(self);
    if (!t.view().is_writable())
        throw nb::value_error("the tensor is read-only, or a stride of 0 repeats its elements: copy it with copy=True");
    auto const format = nb::cast<std::string>(checked(PyMemoryView_FromObject(self.ptr())).attr("format"));
    auto const pack = nb::module_::import_("struct").attr("pack");
    nb::bytes item;
    try {
        if (format[0] == 'Z') {
            auto const both = checked(PyObject_CallOneArg(reinterpret_cast<PyObject*>(&PyComplex_Type), value.ptr()));
            item = nb::bytes(pack("=" + std::string(2, format[1]), both.attr("real"), both.attr("imag")));
        } else {
            item = nb::bytes(pack("=" + format, value));
        }
    } catch (nb::python_error& e) {
        if (!e.matches(nb::module_::import_("struct").attr("error"))) throw;
        nb::raise_from(e, PyIndex_Check(value.ptr()) ? PyExc_OverflowError : PyExc_TypeError,
                       "the value cannot be a %s", dtype_of(t).c_str());
    }
    std::vector<std::int64_t> const repeated(t.shape.size(), 0);
    ferry::tensor_view const all{static_cast<void const*>(item.c_str()), t.dtype, t.shape, repeated};
    ferry::python::without_gil const unlocked;
    ferry::copy(t.view(), all);
}

/// `__array__`, for NumPy: shares the memory unless dtype or copy requires a copy.
nb::object to_numpy(nb::handle self, nb::args const& args, nb::kwargs const& named) {
    auto const& t = nb::cast<tensor const&>(self);
    if (!ferry::is_host_accessible(t.device))
        throw nb::type_error("the tensor is on a device: call ferry.from_dlpack(t, device=\"cpu\") first");
    auto const numpy = nb::module_::import_("numpy");
    auto const array = numpy.attr("asarray")(checked(PyMemoryView_FromObject(self.ptr())));
    return args.size() == 0 && named.size() == 0 ? nb::object(array)
                                                 : nb::object(numpy.attr("array")(array, *args, **named));
}

int get_buffer(PyObject* self, Py_buffer* out, int flags) noexcept {
    return ferry::python::get_buffer(nb::inst_ptr<tensor>(self)->view(), self, out, flags);
}
void release_buffer(PyObject*, Py_buffer* b) noexcept { ferry::python::release_buffer(b); }
PyType_Slot buffer_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(&release_buffer)},
    {0, nullptr},
};

template <class T = tensor>
T taken(nb::handle x, ferry::request const& req) {
    return ferry::python::from_python<T>(x.ptr(), req, back_end{});
}

/// Whether the elements of two tensors may share bytes.
bool overlap(ferry::tensor_view const& a, ferry::tensor_view const& b) {
    auto const one = ferry::ipc::range_of(a), other = ferry::ipc::range_of(b);
    return std::less<>{}(one.begin, other.begin + other.length) && std::less<>{}(other.begin, one.begin + one.length);
}

nb::object to_host(nb::object x, nb::handle out) {
    if (out.is_none()) {
        auto const* const t = find<tensor>(x);
        return t != nullptr && ferry::is_host_accessible(t->device) ? x : nb::cast(taken(x, {.device = ferry::cpu}));
    }
    auto const to = taken<ferry::managed_tensor>(out, {.copy = ferry::copy_policy::never});
    auto from = taken<ferry::managed_tensor>(x, {.device = ferry::cpu});
    if (overlap(to.view(), from.view()))
        from = taken<ferry::managed_tensor>(x, {.device = ferry::cpu, .copy = ferry::copy_policy::always});
    {
        ferry::python::without_gil const unlocked;
        ferry::copy(to.view(), from.view());
    }
    return nb::borrow(out);
}

tensor to_device(nb::handle x, nb::handle device) {
    auto const d = ferry::python::as_device(device.ptr());
    if (!d) throw nb::python_error{};
    return taken(x, {.device = *d});
}

}  // namespace

tensor::tensor(ferry::managed_tensor&& m, ferry::stream_token ready_on)
    : owner{std::make_shared<ferry::managed_tensor const>(std::move(m))}, ready{ready_on} {
    auto const v = owner->view();
    data = const_cast<void*>(v.data()), dtype = v.dtype(), device = v.device();
    copied = owner->is_copied();
    bits = v.flags() & (ferry::flags::read_only | ferry::flags::subbyte_padded);
    for (int i = 0; i < v.rank(); ++i) shape.push_back(v.extent(i)), strides.push_back(v.stride(i));
}

std::optional<ferry::python::detail::imported> back_end::import_other_protocol(PyObject* x) const {
    std::optional<ferry::python::detail::imported> got;
    if (PyObject_CheckBuffer(x) != 0) {
        got.emplace(ferry::python::from_buffer(x));
    } else if (PyObject_HasAttrString(x, "__arrow_c_array__") != 0 ||
               PyObject_HasAttrString(x, "__arrow_c_stream__") != 0) {
        got.emplace(ferry::to_tensor(ferry::python::column_from_python(x, *this)));
    }
    if (!got) {
        PyErr_Format(PyExc_TypeError,
                     "expected an array, which has __dlpack__, the buffer protocol or Arrow's PyCapsules, got %U",
                     nb::inst_name(x).ptr());
        throw ferry::python::error_is_set{};
    }
    return got;
}

void define_tensor(nb::module_& m) {
    auto type = nb::class_<tensor>(
        m, "Tensor", nb::is_weak_referenceable(), nb::type_slots(buffer_slots),
        "The elements of an array of any library, which it keeps alive. Immutable, apart from the elements.");
    type.def_prop_ro(
            "shape", [](tensor const& t) { return to_tuple(t.shape); }, "The extents: a tuple.")
        .def_prop_ro(
            "strides", [](tensor const& t) { return to_tuple(t.strides); },
            "The steps from one element to the next in each dimension, in elements: a tuple.")
        .def_prop_ro("dtype", &dtype_of, "The name of the element type: 'float32', 'bfloat16', …")
        .def_prop_ro(
            "device", [](tensor const& t) { return nb::make_tuple(static_cast<int>(t.device.type), t.device.id); },
            "The device of the elements: a pair (type, id) of ints; (1, 0) is the CPU.")
        .def_prop_ro(
            "ndim", [](tensor const& t) { return t.shape.size(); }, "The number of dimensions.")
        .def_prop_ro(
            "size", [](tensor const& t) { return t.view().size(); }, "The number of elements.")
        .def_prop_ro(
            "nbytes", [](tensor const& t) { return t.view().nbytes(); },
            "The size in bytes of the elements in a contiguous layout, also for packed types.")
        .def_prop_ro(
            "data_ptr",
            [](tensor const& t) {
                return t.view().is_empty() ? std::uintptr_t{0} : reinterpret_cast<std::uintptr_t>(t.data);
            },
            "The address of the first element; 0 if there is none.")
        .def_prop_ro(
            "readonly", [](tensor const& t) { return ferry::has(t.bits, ferry::flags::read_only); },
            "Whether the elements are read-only through this Tensor.")
        .def_prop_ro(
            "copied", [](tensor const& t) { return t.copied; },
            "Whether the import that created this Tensor copied. False for all other Tensors, including views.")
        .def_prop_ro("T", &transposed, "A view with the dimensions in reverse order.")
        .def("__getitem__", &select, "key"_a.none(), "A view: ints, slices of any step and an ellipsis.")
        .def("__len__", &length, "The extent of the first dimension.")
        .def(
            "__iter__",
            [](nb::handle self) {
                static_cast<void>(length(nb::cast<tensor const&>(self)));
                return checked(PySeqIter_New(self.ptr()));
            },
            "Views along the first dimension.")
        .def(
            "fill", &fill, "value"_a.none(),
            "Set all elements to a value. ValueError if the Tensor is read-only; OverflowError if the type cannot hold it.")
        .def("__array__", &to_numpy, "args"_a, "kwargs"_a,
             "A NumPy array that shares the memory, unless dtype or copy requires a copy.")
        .def("__repr__", &to_string);
    if (!ferry::python::install_dlpack<tensor>(
            reinterpret_cast<PyTypeObject*>(type.ptr()), [](PyObject* o) { return find<tensor>(o); },
            [](tensor&& t) { return new_object(std::move(t)); }, back_end{})) {
        throw nb::python_error{};
    }
    m.attr("from_dlpack") = type.attr("from_dlpack");
    m.def(
        "to_host", &to_host, nb::arg(), nb::kw_only(), "out"_a.none() = nb::none(),
        "The elements in host memory, finished: shared where the host reads them, else copied. With `out`, a writable array of the same shape "
        "and dtype, they are copied into it, and it is returned.");
    m.def("to_device", &to_device, nb::arg(), nb::arg(), "from_dlpack(x, device=device).");
}

}  // namespace package
