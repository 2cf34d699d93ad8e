// Columns by `__cuda_array_interface__` of forged objects in host memory: the mask is the validity.
#include "interpreter.hpp"

#include <ferry/python/detail/column_array_interface.hpp>

#include <ferry/column/from_tensors.hpp>
#include <ferry/column/validate.hpp>

#include <support/fails.hpp>

#include <cstdint>
#include <string>

namespace {

namespace py = ferry::python;
using py::reference;

std::int32_t numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
bool flags[] = {true, false, true, true, true, true, true, true, true, false};
unsigned char bits[] = {0xfd, 0x01};  // the same flags

/// Evaluates `text`, a Python expression of an object, with the addresses `numbers`, `flags` and `bits`.
reference forged(std::string const& text) {
    support::start_python();
    reference const scope{PyDict_New()};
    auto const put = [&](char const* name, void const* p) {
        reference const n{PyLong_FromVoidPtr(const_cast<void*>(p))};
        PyDict_SetItemString(scope.get(), name, n.get());
    };
    put("numbers", numbers), put("flags", flags), put("bits", bits);
    std::string const source =
        "import types, __main__\n"
        "def of(typestr, data, **more):\n"
        "    return types.SimpleNamespace(__cuda_array_interface__={'version': 3, 'shape': (10,), 'typestr': typestr, 'data': (data, False), **more})\n"
        "x = " +
        text + "\n";
    reference const done{PyRun_String(source.c_str(), Py_file_input, scope.get(), scope.get())};
    REQUIRE(done);
    return reference{Py_NewRef(PyDict_GetItemString(scope.get(), "x"))};
}

int located = 0, waited = 0;
struct waiting : ferry::host_back_end {
    void wait(ferry::stream_token) const noexcept { ++waited; }
};
ferry::device on_the_host(void const*) {
    ++located;
    return ferry::cpu;
}

ferry::column column_of(std::string const& text) {
    waiting const b;
    auto c = py::detail::column_of_array(forged(text).get(), on_the_host, b, {});
    REQUIRE(c);
    ferry::validate(*c, ferry::validation::full);
    return *c;
}

std::string refusal(std::string const& text, PyObject* type) {
    waiting const b;
    try {
        static_cast<void>(py::detail::column_of_array(forged(text).get(), on_the_host, b, {}));
        FAIL_CHECK("the array was imported");
        return "";
    } catch (py::error_is_set const&) {
        return support::taken_error(type);
    }
}

void refuses(ferry::errc code, std::string const& text) {
    waiting const b;
    support::fails(code,
                   [&] { static_cast<void>(py::detail::column_of_array(forged(text).get(), on_the_host, b, {})); });
}

void check_items(ferry::column const& c) {
    CHECK(c.length() == 10);
    CHECK(c.null_count() == 2);
    for (std::int64_t i = 0; auto const item : c.values<std::int32_t>()) {
        CHECK(item.has_value() == flags[i]);
        if (item) CHECK(*item == numbers[i]);
        ++i;
    }
}

}  // namespace

TEST_CASE("a mask of bits is shared as validity") {
    auto const c = column_of("of('<i4', numbers, mask=of('<t1', bits))");
    CHECK(c.view().buffers()[0].data == bits);
    CHECK(c.view().buffers()[1].data == numbers);
    CHECK(c.view().known_null_count() == -1);  // the bits were not read
    check_items(c);
}

TEST_CASE("a mask of bools or bytes is packed; the numbers are shared") {
    for (auto const* type : {"|b1", "|u1", "|i1"}) {
        auto const c = column_of(std::string{"of('<i4', numbers, mask=of('"} + type + "', flags))");
        CHECK(c.view().buffers()[1].data == numbers);
        CHECK(c.view().buffers()[0].data != static_cast<void*>(flags));
        check_items(c);
    }
}

TEST_CASE("without a mask there are no nulls, and strided numbers are copied") {
    CHECK(column_of("of('<i4', numbers)").null_count() == 0);
    auto const c = column_of("of('<i4', numbers, shape=(5,), strides=(8,), mask=of('<t1', bits, shape=(5,)))");
    CHECK(c.view().buffers()[1].data != static_cast<void*>(numbers));
    CHECK(c.null_count() == 1);
    for (std::int64_t i = 0; auto const item : c.values<std::int32_t>()) {
        if (item) CHECK(*item == numbers[2 * i]);
        ++i;
    }
    CHECK(column_of("of('|b1', flags, mask=of('|b1', flags))").null_count() == 2);
    CHECK(column_of("of('<i4', 0, shape=(0,), mask=of('<t1', 0, shape=(0,)))").length() == 0);
}

TEST_CASE("an object without the interface is no column, and a column keeps its object alive") {
    waiting const b;
    CHECK(!py::detail::column_of_array(forged("types.SimpleNamespace()").get(), on_the_host, b, {}));
    auto const x = forged("of('<i4', numbers, mask=of('<t1', bits))");
    auto const before = Py_REFCNT(x.get());
    {
        auto const c = py::detail::column_of_array(x.get(), on_the_host, b, {});
        CHECK(Py_REFCNT(x.get()) == before + 1);
    }
    CHECK(Py_REFCNT(x.get()) == before);
}

TEST_CASE("work that is pending on the streams of numbers and mask is waited for") {
    waited = 0;
    column_of("of('<i4', numbers, mask=of('<t1', bits))");
    CHECK(waited == 0);
    column_of("of('<i4', numbers, stream=1, mask=of('<t1', bits, stream=7))");
    CHECK(waited == 2);
    // Version 1 has no entry `stream`: work may be pending on the legacy default stream.
    column_of("of('<i4', numbers, mask=of('|b1', flags, version=1))");
    CHECK(waited == 3);
}

TEST_CASE("masks of another type, shape or rank are refused") {
    CHECK(refusal("of('<i4', numbers, mask=of('<i4', numbers))", PyExc_BufferError).find("'<t1'") != std::string::npos);
    CHECK(refusal("of('<i4', numbers, mask=of('|b1', flags, mask=of('|b1', flags)))", PyExc_BufferError)
              .find("mask has a mask") != std::string::npos);
    CHECK(refusal("of('|b1', flags, mask=of('<t1', bits))", PyExc_BufferError).find("'|b1'") != std::string::npos);
    CHECK(refusal("of('<i4', numbers, mask=3)", PyExc_ValueError).find("no __cuda_array_interface__") !=
          std::string::npos);
    CHECK(refusal("of('<i4', numbers, mask=of('<t1', bits, strides=(1,)))", PyExc_BufferError).find("strides") !=
          std::string::npos);
    // Only masks may be made of bits.
    CHECK(refusal("of('<t1', bits)", PyExc_BufferError).find("typestr") != std::string::npos);
    CHECK(refusal("of('<i4', numbers, mask=of('<t2', bits))", PyExc_BufferError).find("<t2") != std::string::npos);
    refuses(ferry::errc::shape, "of('<i4', numbers, mask=of('<t1', bits, shape=(9,)))");
    refuses(ferry::errc::null_data, "of('<i4', numbers, mask=of('<t1', 0))");
    refuses(ferry::errc::null_data, "of('<i4', numbers, mask=of('|b1', 0))");
    refuses(ferry::errc::rank, "of('<i4', numbers, shape=(2, 5), mask=of('|b1', flags, shape=(2, 5)))");
    refuses(ferry::errc::rank, "of('<i4', numbers, shape=(2, 5), mask=of('<t1', bits, shape=(2, 5)))");
    refuses(ferry::errc::dtype, "of('<c8', numbers, shape=(5,), mask=of('<t1', bits, shape=(5,)))");
}

TEST_CASE("a mask on another device than the elements is refused") {
    waiting const b;
    auto const x = forged("of('<i4', numbers, mask=of('<t1', bits))");
    auto const apart = [](void const* p) {
        return ferry::device{p == bits ? ferry::device_type::cuda : ferry::device_type::cuda_managed, 0};
    };
    support::fails(ferry::errc::device, [&] { static_cast<void>(py::detail::column_of_array(x.get(), apart, b, {})); },
                   {"different devices"});
}

TEST_CASE("a column is exported with its validity as a mask that keeps it alive, and imported again") {
    auto const c = column_of("of('<i4', numbers, mask=of('<t1', bits))");
    reference const owner{PyList_New(0)};
    auto const before = Py_REFCNT(owner.get());
    reference facts{py::detail::describe_column(c, ferry::stream_token::cuda_legacy_default(), owner.get())};
    REQUIRE(facts);
    CHECK(Py_REFCNT(owner.get()) == before + 1);  // the reference of the mask
    reference const holder{forged("types.SimpleNamespace()")};
    REQUIRE(PyObject_SetAttrString(holder.get(), "__cuda_array_interface__", facts.get()) == 0);
    waiting const b;
    auto const back = py::detail::column_of_array(holder.get(), on_the_host, b, {});
    REQUIRE(back);
    check_items(*back);
    CHECK(back->view().buffers()[0].data == bits);

    auto const slice = c.slice(8, 2);  // starts at a byte
    facts = reference{py::detail::describe_column(slice, ferry::already_ready, owner.get())};
    REQUIRE(PyObject_SetAttrString(holder.get(), "__cuda_array_interface__", facts.get()) == 0);
    auto const part = py::detail::column_of_array(holder.get(), on_the_host, b, {});
    REQUIRE(part);
    CHECK(part->length() == 2);
    CHECK(part->null_count() == 1);
    CHECK(part->view().buffers()[0].data == bits + 1);
    CHECK(PyDict_GetItemString(facts.get(), "stream") == Py_None);
}

TEST_CASE("R44: a null stream is refused, because the interface forbids 0") {
    auto const owner = forged("{}");
    auto const c = column_of("of('<i4', numbers)");
    for (auto const bad : {ferry::stream_token::from_cuda_handle(0), ferry::stream_token::rocm_default()}) {
        support::fails(ferry::errc::stream,
                       [&] { reference const facts{py::detail::describe_column(c, bad, owner.get())}; });
    }
}

TEST_CASE("a column that the interface cannot represent has no attribute") {
    reference const owner{PyList_New(0)};
    auto const refused = [&](ferry::column const& c) {
        try {
            static_cast<void>(py::detail::describe_column(c, ferry::already_ready, owner.get()));
            FAIL_CHECK("the column was exported");
            return std::string{};
        } catch (py::error_is_set const&) {
            return support::taken_error(PyExc_AttributeError);
        }
    };
    auto const c = column_of("of('<i4', numbers, mask=of('<t1', bits))");
    CHECK(refused(c.slice(1, 4)).find("within a byte") != std::string::npos);
    CHECK(refused(column_of("of('|b1', flags)")).find("expected a column of numbers") != std::string::npos);
    CHECK(refused(ferry::column{}).find("expected a column of numbers") != std::string::npos);
    reference const without{
        py::detail::describe_column(column_of("of('<i4', numbers)").slice(1, 4), ferry::already_ready, owner.get())};
    CHECK(PyDict_GetItemString(without.get(), "mask") == Py_None);
}
