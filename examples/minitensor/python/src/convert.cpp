#include "convert.hpp"

#include <ferry/python/gil.hpp>

#include <stdexcept>
#include <string>

namespace mt::python {
namespace {

/// Returns a Python int of at most 64 bits, signed if possible; nothing if it is larger.
std::optional<mt::number> small_integer(nb::handle o) {
    int overflow = 0;
    auto const v = PyLong_AsLongLongAndOverflow(o.ptr(), &overflow);
    if (overflow == 0) {
        if (v == -1 && PyErr_Occurred() != nullptr) throw nb::python_error{};
        return static_cast<std::int64_t>(v);
    }
    if (overflow > 0) {
        auto const u = PyLong_AsUnsignedLongLong(o.ptr());
        if (PyErr_Occurred() == nullptr) return static_cast<std::uint64_t>(u);
        PyErr_Clear();
    }
    return {};
}

mt::number from_integer(nb::handle o, mt::dtype to) {
    if (auto const v = small_integer(o)) return *v;
    if (to.kind == mt::kind::bool_) return true;
    if (to.kind == mt::kind::int_ || to.kind == mt::kind::uint) {
        throw std::overflow_error{"an integer of more than 64 bits does not fit in " + name(to)};
    }
    double const v = PyLong_AsDouble(o.ptr());
    if (v == -1 && PyErr_Occurred() != nullptr) throw nb::python_error{};
    return v;
}

nb::object list_from(mt::tensor const& t, std::size_t dimension, std::int64_t offset) {
    if (dimension == t.ndim()) {
        auto const bit = offset * t.itemsize_bits();
        return from_number(decode(t.dtype(), load(t.dtype(), t.data(), bit)));
    }
    auto const n = t.shape()[dimension];
    auto items = nb::steal<nb::list>(PyList_New(n));
    if (!items.is_valid()) throw nb::python_error{};
    for (std::int64_t i = 0; i < n; ++i) {
        auto const at = t.size() == 0 ? 0 : offset + i * t.strides()[dimension];
        auto item = list_from(t, dimension + 1, at);
        PyList_SET_ITEM(items.ptr(), i, item.release().ptr());
    }
    return items;
}

}  // namespace

mt::tensor* tensor_in(nb::handle o) {
    // Checks the type itself first; nanobind looks it up by its C++ name.
    static nb::handle const type = nb::type<mt::tensor>();
    if (!o.type().is(type) && !nb::isinstance<mt::tensor>(o)) return nullptr;
    if (!nb::inst_ready(o)) return nullptr;
    return nb::inst_ptr<mt::tensor>(o);
}

mt::number to_number(nb::handle o, mt::dtype to) {
    auto* const p = o.ptr();
    if (PyBool_Check(p)) return p == Py_True;
    if (PyLong_Check(p)) return from_integer(o, to);
    if (PyFloat_Check(p)) return PyFloat_AS_DOUBLE(p);
    if (PyComplex_Check(p)) {
        return std::complex<double>{PyComplex_RealAsDouble(p), PyComplex_ImagAsDouble(p)};
    }
    std::optional<mt::tensor> one;
    if (auto const* const t = tensor_in(o)) {
        one = *t;
    } else if (PyObject_CheckBuffer(p) && !PyBytes_Check(p) && !PyByteArray_Check(p)) {
        Py_buffer buffer;
        if (PyObject_GetBuffer(p, &buffer, PyBUF_RECORDS_RO) == 0) {
            bool const scalar = buffer.ndim == 0;
            PyBuffer_Release(&buffer);
            if (scalar) one = asarray(o, {}, {});
        } else {
            PyErr_Clear();  // another conversion may succeed
        }
    }
    if (one && one->ndim() == 0) {
        auto const near = readable(*one);
        return decode(near.dtype(), load(near.dtype(), near.data(), 0));
    }
    if (PyIndex_Check(p)) {
        auto const i = nb::steal(PyNumber_Index(p));
        if (!i.is_valid()) throw nb::python_error{};
        return from_integer(i, to);
    }
    auto const* const methods = Py_TYPE(p)->tp_as_number;
    if (!one && methods != nullptr && methods->nb_float != nullptr) {
        double const v = PyFloat_AsDouble(p);
        if (v == -1 && PyErr_Occurred() != nullptr) throw nb::python_error{};
        return v;
    }
    throw nb::type_error((std::string{"expected a number, got "} + Py_TYPE(p)->tp_name).c_str());
}

nb::object from_number(mt::number const& value) {
    auto* const p = std::visit(
        []<class T>(T v) -> PyObject* {
            if constexpr (std::is_same_v<T, bool>) {
                return PyBool_FromLong(v);
            } else if constexpr (std::is_same_v<T, std::int64_t>) {
                return PyLong_FromLongLong(v);
            } else if constexpr (std::is_same_v<T, std::uint64_t>) {
                return PyLong_FromUnsignedLongLong(v);
            } else if constexpr (std::is_same_v<T, double>) {
                return PyFloat_FromDouble(v);
            } else {
                return PyComplex_FromDoubles(v.real(), v.imag());
            }
        },
        value);
    if (p == nullptr) throw nb::python_error{};
    return nb::steal(p);
}

std::vector<std::int64_t> to_shape(nb::handle o) {
    std::vector<std::int64_t> shape;
    auto const add = [&](nb::handle item) {
        auto const i = nb::steal(PyNumber_Index(item.ptr()));
        if (!i.is_valid()) throw nb::python_error{};
        auto const v = small_integer(i);
        auto const* const extent = v ? std::get_if<std::int64_t>(&*v) : nullptr;
        if (extent == nullptr) throw std::invalid_argument{"an extent does not fit in 64 bits"};
        shape.push_back(*extent);
    };
    if (PyIndex_Check(o.ptr())) {
        add(o);
    } else {
        for (nb::handle item : nb::iter(o)) add(item);
    }
    return shape;
}

nb::tuple to_tuple(std::vector<std::int64_t> const& values) {
    auto result = nb::steal<nb::tuple>(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
    if (!result.is_valid()) throw nb::python_error{};
    for (std::size_t i = 0; i < values.size(); ++i) {
        auto item = from_number(values[i]);
        PyTuple_SET_ITEM(result.ptr(), static_cast<Py_ssize_t>(i), item.release().ptr());
    }
    return result;
}

mt::tensor getitem(mt::tensor const& t, nb::handle key) {
    nb::tuple const keys =
        PyTuple_Check(key.ptr()) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(key);
    std::size_t named = 0;
    bool ellipsis = false;
    for (nb::handle k : keys) {
        if (k.ptr() != Py_Ellipsis) {
            ++named;
        } else if (std::exchange(ellipsis, true)) {
            throw nb::index_error("an index can contain at most one ellipsis");
        }
    }
    if (named > t.ndim()) {
        throw std::out_of_range{"too many indices: " + std::to_string(named) + " for " +
                                std::to_string(t.ndim()) + " dimensions"};
    }
    std::vector<mt::subscript> subscripts;
    for (nb::handle k : keys) {
        auto* const p = k.ptr();
        auto const extent =
            subscripts.size() < t.ndim() ? t.shape()[subscripts.size()] : std::int64_t{0};
        if (p == Py_Ellipsis) {
            for (auto left = t.ndim() - named; left > 0; --left) {
                subscripts.emplace_back(mt::range{0, t.shape()[subscripts.size()], 1});
            }
        } else if (PySlice_Check(p)) {
            Py_ssize_t start = 0;
            Py_ssize_t stop = 0;
            Py_ssize_t step = 0;
            if (PySlice_Unpack(p, &start, &stop, &step) != 0) throw nb::python_error{};
            auto const length = PySlice_AdjustIndices(extent, &start, &stop, step);
            subscripts.emplace_back(mt::range{start, length, step});
        } else if (PyIndex_Check(p) && !PyBool_Check(p)) {
            auto const i = PyNumber_AsSsize_t(p, PyExc_IndexError);
            if (i == -1 && PyErr_Occurred() != nullptr) throw nb::python_error{};
            subscripts.emplace_back(std::int64_t{i});
        } else {
            throw nb::type_error("unsupported index: expected ints, slices and at most one ellipsis");
        }
    }
    return index(t, subscripts);
}

mt::tensor readable(mt::tensor const& t) {
    if (t.device().type == mt::device::cpu) return t;
    ferry::python::without_gil const unlocked;
    return mt::on_host(t);
}

nb::object tolist(mt::tensor const& t) {
    return list_from(readable(t), 0, 0);
}

}  // namespace mt::python
