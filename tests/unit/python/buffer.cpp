#include "interpreter.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using ferry::data_type;
using ferry::device_type;
using ferry::managed_tensor;
using ferry::tensor_view;
using ferry::type_code;
using ferry::python::from_buffer;
using ferry::python::reference;

namespace {

// An exporter: the buffer of the test that runs.
tensor_view const* exported = nullptr;
int released = 0;

int get(PyObject* self, Py_buffer* out, int flags) { return ferry::python::get_buffer(*exported, self, out, flags); }
void release(PyObject*, Py_buffer* buffer) {
    ++released;
    ferry::python::release_buffer(buffer);
}

reference make_exporter() {
    static PyObject* const type = [] {
        PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get)},
                               {Py_bf_releasebuffer, reinterpret_cast<void*>(&release)},
                               {0, nullptr}};
        PyType_Spec spec{"tests.exporter", static_cast<int>(sizeof(PyObject)), 0, Py_TPFLAGS_DEFAULT, slots};
        return PyType_FromSpec(&spec);
    }();
    return reference{PyObject_CallNoArgs(type)};
}

/// The text of the BufferError with which a request is refused; empty if it is granted.
std::string refusal(tensor_view const& v, int flags) {
    exported = &v;
    reference const exporter = make_exporter();
    Py_buffer buffer;
    auto const references = Py_REFCNT(exporter.get());
    if (PyObject_GetBuffer(exporter.get(), &buffer, flags) == 0) {
        PyBuffer_Release(&buffer);
        return "";
    }
    CHECK(buffer.obj == nullptr);
    CHECK(Py_REFCNT(exporter.get()) == references);
    return support::taken_error(PyExc_BufferError);
}

managed_tensor imported(char const* expression) { return from_buffer(support::eval(expression).get()); }

std::string refused_import(char const* expression) {
    reference const x = support::eval(expression);
    try {
        static_cast<void>(from_buffer(x.get()));
    } catch (ferry::python::error_is_set const&) {
        return support::taken_error(PyExc_BufferError);
    }
    return "";
}

}  // namespace

TEST_CASE("R16, R17: formats of the buffer protocol and their data types") {
    support::start_python();
    auto const type = [](char const* format, Py_ssize_t size) -> std::optional<data_type> {
        try {
            return ferry::python::detail::type_from_format(format, size);
        } catch (ferry::python::error_is_set const&) {
            support::taken_error(PyExc_BufferError);
            return {};
        }
    };
    CHECK(type(nullptr, 1) == ferry::dtype_of<std::uint8_t>);
    CHECK(type("?", 1) == ferry::dtype_of<bool>);
    CHECK(type("c", 1) == ferry::dtype_of<std::uint8_t>);
    CHECK(type("b", 1) == ferry::dtype_of<std::int8_t>);
    CHECK(type(">B", 1) == ferry::dtype_of<std::uint8_t>);
    CHECK(type("<h", 2) == ferry::dtype_of<std::int16_t>);
    CHECK(type("=I", 4) == ferry::dtype_of<std::uint32_t>);
    CHECK(type("@l", sizeof(long)) == ferry::dtype_of<long>);
    CHECK(type("l", sizeof(long)) == ferry::dtype_of<long>);
    CHECK(type("L", sizeof(long)) == ferry::dtype_of<unsigned long>);
    CHECK(type("<l", 4) == ferry::dtype_of<std::int32_t>);
    CHECK(type("=L", 4) == ferry::dtype_of<std::uint32_t>);
    CHECK(type("N", 8) == ferry::dtype_of<std::uint64_t>);
    CHECK(type("e", 2) == data_type{type_code::float_, 16});
    CHECK(type("<d", 8) == ferry::dtype_of<double>);
    CHECK(type("Zf", 8) == data_type{type_code::complex, 64});
    CHECK(type("D", 16) == data_type{type_code::complex, 128});
    for (auto const* bad : {"", "@", "2f", "T{i:x:}", "g", "Zg", "s", "4s", "P", "x", "O", "Z", "ff", "f "}) {
        INFO(std::string{bad});
        CHECK_FALSE(type(bad, 4).has_value());
    }
    CHECK_FALSE(type("f", 8).has_value());   // the size contradicts the format
    CHECK_FALSE(type("<l", 8).has_value());
    CHECK_FALSE(type(">i", 4).has_value());  // R20
    CHECK_FALSE(type("!d", 8).has_value());
}

TEST_CASE("R11, R27: an import shares the memory, its strides in elements, and its access") {
    support::start_python();
    auto const bytes = imported("b'abc'");
    CHECK(bytes.view().is_read_only());
    CHECK(bytes.view().extent(0) == 3);
    auto const floats = imported("memoryview(__import__('array').array('f', [0, 1, 2, 3, 4, 5]))[::-2]");
    CHECK_FALSE(floats.view().is_read_only());
    CHECK(floats.view().stride(0) == -2);
    CHECK((floats.as<float, 1>()(0) == 5 && floats.as<float, 1>()(2) == 1));
    auto const matrix = imported("memoryview(bytearray(24)).cast('i', (2, 3))");
    CHECK((matrix.view().rank() == 2 && matrix.view().is_contiguous()));
    auto const scalar = imported("memoryview(bytearray(8)).cast('d', ())");
    CHECK(scalar.view().rank() == 0);
    auto const empty = imported("bytearray()");
    CHECK(empty.view().is_empty());
    auto const deep = imported("memoryview(bytearray(1)).cast('B', (1,) * 64)");
    CHECK(deep.view().rank() == 64);
    CHECK(refused_import("__import__('array').array('u', 'x')") != "");
    reference const number = support::eval("3");
    CHECK_THROWS_AS(static_cast<void>(from_buffer(number.get())), ferry::python::error_is_set);
    support::taken_error(PyExc_TypeError);
}

TEST_CASE("R65: the buffer is released once, on the thread that destroys the tensor") {
    support::start_python();
    float values[] = {1, 2};
    std::int64_t const extents[] = {2};
    tensor_view const v{values, extents};
    exported = &v;
    reference const exporter = make_exporter();
    auto const references = Py_REFCNT(exporter.get());
    released = 0;
    {
        auto const tensor = from_buffer(exporter.get());
        CHECK(tensor.view().data() == values);
        CHECK(Py_REFCNT(exporter.get()) == references + 1);
        CHECK(released == 0);
    }
    CHECK(released == 1);
    {
        std::optional<managed_tensor> tensor{from_buffer(exporter.get())};
        PyThreadState* const state = PyEval_SaveThread();
        std::thread{[&] { tensor.reset(); }}.join();
        PyEval_RestoreThread(state);
    }
    CHECK(released == 2);
    {
        PyErr_SetString(PyExc_KeyError, "kept");
        auto* const raw = [&] {
            ferry::python::kept_error const kept;
            return from_buffer(exporter.get()).release();
        }();
        raw->deleter(raw);
        CHECK(support::taken_error(PyExc_KeyError) == "kept");  // R67
    }
    CHECK(released == 3);
    CHECK(Py_REFCNT(exporter.get()) == references);
}

TEST_CASE("R30: a byte stride that is no multiple of the element size is refused, where it is used") {
    support::start_python();
    // A buffer that an author describes: three floats, 6 bytes apart.
    static unsigned char memory[32];
    static Py_ssize_t shape[1], stride[1];
    static Py_ssize_t behind[1];
    static bool is_indirect;
    stride[0] = 6;
    PyType_Slot slots[] = {
        {Py_bf_getbuffer, reinterpret_cast<void*>(+[](PyObject* self, Py_buffer* out, int) {
             *out = {};
             out->buf = memory;
             out->obj = self;
             Py_INCREF(self);
             out->len = 4 * shape[0];
             out->itemsize = 4;
             out->format = const_cast<char*>("f");
             out->ndim = 1;
             out->shape = shape;
             out->strides = stride;
             out->suboffsets = is_indirect ? behind : nullptr;
             return 0;
         })},
        {0, nullptr}};
    PyType_Spec spec{"tests.six_bytes", static_cast<int>(sizeof(PyObject)), 0, Py_TPFLAGS_DEFAULT, slots};
    reference const type{PyType_FromSpec(&spec)}, object{PyObject_CallNoArgs(type.get())};
    auto const text = [&]() -> std::string {
        try {
            auto const tensor = from_buffer(object.get());
            return tensor.view().is_contiguous() ? "contiguous" : "strided";
        } catch (ferry::python::error_is_set const&) {
            return support::taken_error(PyExc_BufferError);
        }
    };
    shape[0] = 3;
    CHECK(text().find("a stride is not a multiple") != std::string::npos);
    shape[0] = 1;
    CHECK(text() == "contiguous");
    shape[0] = 0;
    CHECK(text() == "contiguous");
    shape[0] = 3;
    stride[0] = 8;
    CHECK(text() == "strided");
    is_indirect = true;
    CHECK(text().find("suboffsets") != std::string::npos);
    behind[0] = -1;
    CHECK(text() == "strided");
}

TEST_CASE("R11: a request for a writable buffer of a read-only tensor is refused") {
    support::start_python();
    float values[6] = {0, 1, 2, 3, 4, 5};
    std::int64_t const extents[] = {2, 3}, by_columns[] = {1, 2}, far[] = {6, 2};
    tensor_view const rows{values, extents}, columns{values, extents, by_columns}, apart{values, extents, far};
    tensor_view const fixed = rows.as_read_only();
    CHECK(refusal(rows, PyBUF_FULL) == "");
    CHECK(refusal(fixed, PyBUF_FULL_RO) == "");
    CHECK(refusal(fixed, PyBUF_FULL).find("read-only") != std::string::npos);
    CHECK(refusal(fixed, PyBUF_SIMPLE) == "");
    CHECK(refusal(fixed, PyBUF_WRITABLE) != "");

    for (int const flags : {PyBUF_SIMPLE, PyBUF_ND, PyBUF_STRIDES, PyBUF_C_CONTIGUOUS, PyBUF_ANY_CONTIGUOUS})
        CHECK(refusal(rows, flags) == "");
    CHECK(refusal(rows, PyBUF_F_CONTIGUOUS).find("requested order") != std::string::npos);
    for (int const flags : {PyBUF_STRIDES, PyBUF_F_CONTIGUOUS, PyBUF_ANY_CONTIGUOUS}) CHECK(refusal(columns, flags) == "");
    for (int const flags : {PyBUF_SIMPLE, PyBUF_ND, PyBUF_C_CONTIGUOUS}) CHECK(refusal(columns, flags) != "");
    CHECK(refusal(apart, PyBUF_STRIDES) == "");
    for (int const flags : {PyBUF_SIMPLE, PyBUF_ND, PyBUF_C_CONTIGUOUS, PyBUF_F_CONTIGUOUS, PyBUF_ANY_CONTIGUOUS})
        CHECK(refusal(apart, flags) != "");
    CHECK(refusal(rows, PyBUF_FORMAT).find("PyBUF_ND") != std::string::npos);
}

TEST_CASE("R29: a buffer of elements that a stride of 0 repeats is read-only") {
    support::start_python();
    float values[3] = {0, 1, 2};
    std::int64_t const extents[] = {2, 3}, by_rows[] = {0, 1}, one[] = {1, 3}, none[] = {0, 3};
    tensor_view const repeated{values, extents, by_rows}, single{values, one, by_rows}, empty{values, none, by_rows};
    CHECK(refusal(repeated, PyBUF_FULL).find("a stride of 0 repeats elements") != std::string::npos);
    CHECK(refusal(repeated, PyBUF_FULL_RO) == "");
    for (auto const& v : {single, empty}) CHECK(refusal(v, PyBUF_FULL) == "");
    exported = &repeated;
    reference const exporter = make_exporter();
    {
        reference const view{PyMemoryView_FromObject(exporter.get())};
        REQUIRE(view);
        CHECK(PyMemoryView_GET_BUFFER(view.get())->readonly == 1);
        CHECK(PyMemoryView_GET_BUFFER(view.get())->strides[0] == 0);
    }
    auto const tensor = from_buffer(exporter.get());
    CHECK(tensor.view().is_read_only());
    CHECK(tensor.as<float const, 2>()(1, 2) == 2);
}

TEST_CASE("R30: an export has what was requested, and strides in bytes") {
    support::start_python();
    double values[6] = {0, 1, 2, 3, 4, 5};
    std::int64_t const extents[] = {3, 1}, strides[] = {-2, 7};
    tensor_view const v{values + 5, extents, strides};
    exported = &v;
    reference const exporter = make_exporter();
    Py_buffer buffer;
    REQUIRE(PyObject_GetBuffer(exporter.get(), &buffer, PyBUF_FULL) == 0);
    CHECK(buffer.buf == values + 5);
    CHECK((buffer.ndim == 2 && buffer.len == 24 && buffer.itemsize == 8 && buffer.readonly == 0));
    CHECK((buffer.shape[0] == 3 && buffer.shape[1] == 1 && buffer.strides[0] == -16 && buffer.strides[1] == 8));
    CHECK(std::string{buffer.format} == "d");
    CHECK((buffer.suboffsets == nullptr && buffer.obj == exporter.get()));
    PyBuffer_Release(&buffer);

    std::int64_t const six[] = {6};
    tensor_view const plain{values, six};
    exported = &plain;
    REQUIRE(PyObject_GetBuffer(exporter.get(), &buffer, PyBUF_SIMPLE) == 0);
    CHECK((buffer.shape == nullptr && buffer.strides == nullptr && buffer.format == nullptr && buffer.ndim == 1));
    CHECK((buffer.len == 48 && buffer.itemsize == 8));
    PyBuffer_Release(&buffer);
    REQUIRE(PyObject_GetBuffer(exporter.get(), &buffer, PyBUF_ND | PyBUF_FORMAT) == 0);
    CHECK((buffer.shape[0] == 6 && buffer.strides == nullptr && buffer.format != nullptr));
    PyBuffer_Release(&buffer);

    tensor_view const scalar{values, {}};
    CHECK(refusal(scalar, PyBUF_FULL) == "");
    std::int64_t const none[] = {0, 3};
    tensor_view const empty{static_cast<double*>(nullptr), none};
    exported = &empty;
    reference const view{PyMemoryView_FromObject(exporter.get())};
    REQUIRE(view);
    CHECK(PyObject_Length(view.get()) == 0);
}

TEST_CASE("R39, R19: memory of a device and types without a format are refused with the way out") {
    support::start_python();
    unsigned char values[8] = {};
    std::int64_t const extents[] = {2};
    auto const at = [&](ferry::device dev) { return tensor_view{values, extents, {}, dev}; };
    auto const of = [&](data_type type, ferry::flags bits = ferry::flags::none) {
        return tensor_view{static_cast<void*>(values), type, extents, {}, ferry::cpu, bits};
    };
    auto const text = refusal(at({device_type::cuda, 1}), PyBUF_FULL);
    CHECK(text.find("the memory is on cuda:1") != std::string::npos);
    CHECK(text.find("use __dlpack__") != std::string::npos);
    CHECK(refusal(at({device_type::cuda_host, 0}), PyBUF_FULL) == "");
    for (auto const type : {data_type{type_code::bfloat, 16}, data_type{type_code::float8_e4m3fn, 8},
                            data_type{type_code::float4_e2m1fn, 4}, data_type{type_code::int_, 4},
                            data_type{type_code::float_, 32, 2}})
        CHECK(refusal(of(type), PyBUF_FULL).find("no format for dtype") != std::string::npos);
    CHECK(refusal(of({type_code::float4_e2m1fn, 4}, ferry::flags::subbyte_padded), PyBUF_FULL) != "");
    for (auto const type : {data_type{type_code::bool_, 8}, data_type{type_code::float_, 16}})
        CHECK(refusal(of(type), PyBUF_FULL) == "");
    std::int64_t const negative[] = {-1};
    CHECK(refusal(tensor_view{values, negative}, PyBUF_FULL) != "");
}
