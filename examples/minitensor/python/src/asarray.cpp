// asarray: converts nested sequences, scalars, Tensors, and objects with the buffer protocol.
#include "convert.hpp"

#include <ferry/python/gil.hpp>

#include <stdexcept>
#include <string>

namespace mt::python {
namespace {

/// Returns the element type of a buffer, whose format is that of the struct module.
mt::dtype type_of(Py_buffer const& buffer) {
    std::string const format = buffer.format == nullptr ? "B" : buffer.format;
    auto const refuse = [&](char const* why) {
        throw std::invalid_argument{"a buffer of format '" + format + "' " + why};
    };
    std::string_view rest = format;
    if (!rest.empty() && std::string_view{"@=<>!^"}.find(rest.front()) != rest.npos) {
        bool const foreign = rest.front() == '>' || rest.front() == '!';
        if (foreign && buffer.itemsize > 1) refuse("does not have native byte order");
        rest.remove_prefix(1);
    }
    if (rest.empty() || buffer.itemsize < 1 || buffer.itemsize > 16) refuse("is not supported");
    auto type = mt::dtype{mt::kind::int_, static_cast<std::uint8_t>(buffer.itemsize * 8)};
    auto const is_one_of = [&](char const* codes) {
        return rest.size() == 1 && std::string_view{codes}.find(rest.front()) != rest.npos;
    };
    if (rest == "?") {
        type.kind = mt::kind::bool_;
    } else if (is_one_of("BHILQN")) {
        type.kind = mt::kind::uint;
    } else if (is_one_of("efd")) {
        type.kind = mt::kind::float_;
    } else if (rest == "Zf" || rest == "Zd" || rest == "Ze") {
        type.kind = mt::kind::complex;
    } else if (!is_one_of("bhilqn")) {
        refuse("is not supported");
    }
    if (!supported(type)) refuse("is not supported");
    return type;
}

class buffer_guard {
   public:
    explicit buffer_guard(nb::handle o) {
        if (PyObject_GetBuffer(o.ptr(), &buffer, PyBUF_RECORDS_RO) != 0) throw nb::python_error{};
    }
    ~buffer_guard() { PyBuffer_Release(&buffer); }
    buffer_guard(buffer_guard const&) = delete;
    buffer_guard& operator=(buffer_guard const&) = delete;

    Py_buffer buffer;
};

mt::tensor from_buffer(nb::handle o, std::optional<mt::dtype> wanted) {
    buffer_guard const guard{o};
    auto const& buffer = guard.buffer;
    auto const type = type_of(buffer);
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    bool whole = true;  // strides are multiples of the element
    for (int i = 0; i < buffer.ndim; ++i) {
        shape.push_back(buffer.shape[i]);
        whole = whole && buffer.strides[i] % buffer.itemsize == 0;
        strides.push_back(buffer.strides[i] / buffer.itemsize);
    }
    auto* data = buffer.buf;
    std::vector<unsigned char> compact;
    if (!whole) {
        compact.resize(static_cast<std::size_t>(buffer.len));
        if (PyBuffer_ToContiguous(compact.data(), &buffer, buffer.len, 'C') != 0) {
            throw nb::python_error{};
        }
        data = compact.data();
        std::int64_t step = 1;
        for (auto i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
    }
    mt::tensor const seen{nullptr, data, type, shape, strides, mt::device{}, true, false};
    ferry::python::without_gil const unlocked;
    return converted(seen, wanted.value_or(type));
}

/// Collects the numbers of nested sequences, and finds their shape and their type.
class collector {
   public:
    explicit collector(std::optional<mt::dtype> wanted) : wanted_{wanted} {}

    void collect(nb::handle o) { walk(o, 0); }

    [[nodiscard]] mt::tensor result() const {
        auto const type = wanted_.value_or(inferred());
        if (oversized_ && type.kind == mt::kind::int_) {
            throw std::overflow_error{"an integer of more than 64 bits does not fit in " + name(type)};
        }
        mt::tensor t{type, shape_};
        if (t.size() != static_cast<std::int64_t>(numbers_.size())) ragged();
        if (t.size() == 0) return t;
        static_cast<unsigned char*>(t.data())[t.nbytes() - 1] = 0;
        std::int64_t bit = 0;
        for (auto const& value : numbers_) {
            store(type, t.data(), bit, encode(type, value));
            bit += type.bits;
        }
        return t;
    }

   private:
    [[noreturn]] static void ragged() {
        throw std::invalid_argument{"the nested sequences are ragged: sequences of one level must have equal lengths"};
    }

    [[nodiscard]] mt::dtype inferred() const {
        if (numbers_.empty()) return mt::float64;
        switch (widest_) {
            case 0: return mt::bool_;
            case 3: return mt::float64;
            case 4: return mt::complex128;
            default: return mt::int64;
        }
    }

    static bool is_sequence(nb::handle o) {
        auto* const p = o.ptr();
        if (PyList_Check(p) || PyTuple_Check(p)) return true;
        if (PyUnicode_Check(p) || PyBytes_Check(p) || PyByteArray_Check(p)) return false;
        if (auto const* const t = tensor_in(o)) return t->ndim() != 0;
        if (!PySequence_Check(p)) return false;
        if (PySequence_Size(p) >= 0) return true;
        PyErr_Clear();  // an array without dimensions
        return false;
    }

    void add(nb::handle o) {
        // Without a dtype, an int that does not fit in 64 bits is valid if a later number is a float.
        auto const value = to_number(o, wanted_.value_or(mt::float64));
        if (PyLong_Check(o.ptr()) && std::holds_alternative<double>(value)) {
            oversized_ = true;
            widest_ = std::max(widest_, std::size_t{1});
        } else {
            widest_ = std::max(widest_, value.index());
        }
        numbers_.push_back(value);
    }

    void walk(nb::handle o, std::size_t depth) {
        if (!is_sequence(o)) {
            if (depth != shape_.size()) ragged();
            complete_ = true;
            return add(o);
        }
        if (depth >= mt::tensor::max_ndim) {
            throw std::invalid_argument{"the sequences are nested too deeply"};
        }
        auto const items = nb::steal(PySequence_Fast(o.ptr(), "expected a sequence"));
        if (!items.is_valid()) throw nb::python_error{};
        auto const n = PySequence_Fast_GET_SIZE(items.ptr());
        if (depth == shape_.size()) {
            if (complete_) ragged();
            shape_.push_back(n);
        } else if (shape_[depth] != n) {
            ragged();
        }
        if (n == 0) complete_ = true;
        // The size is read in each iteration, because reading an item may run code that changes the list.
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()); ++i) {
            walk(nb::borrow(PySequence_Fast_GET_ITEM(items.ptr(), i)), depth + 1);
        }
    }

    std::optional<mt::dtype> wanted_;
    std::vector<mt::number> numbers_;
    std::vector<std::int64_t> shape_;
    bool complete_ = false;   // the number of dimensions is known
    bool oversized_ = false;  // an int did not fit in 64 bits
    std::size_t widest_ = 0;  // among the alternatives of mt::number
};

}  // namespace

mt::tensor asarray(nb::handle o, std::optional<mt::dtype> type, mt::device where) {
    where = normalised(where);
    auto const result = [&] {
        if (auto const* const t = tensor_in(o)) {
            ferry::python::without_gil const unlocked;
            return converted(*t, type.value_or(t->dtype()));
        }
        if (PyObject_CheckBuffer(o.ptr())) return from_buffer(o, type);
        collector c{type};
        c.collect(o);
        return c.result();
    }();
    if (result.device() == where) return result;
    ferry::python::without_gil const unlocked;
    return copy(result, where);
}

}  // namespace mt::python
