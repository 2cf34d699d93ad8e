#include "interpreter.hpp"

#include <ferry/python/detail/published.hpp>
#include <support/fails.hpp>

#include <memory>
#include <stdexcept>
#include <string>

using ferry::errc;
using ferry::managed_tensor;
using ferry::python::reference;
using ferry::python::try_from_python;

namespace {

struct refusing_array {};

}  // namespace

template <>
struct ferry::array_traits<refusing_array> {
    static tensor_view view(refusing_array&) { return {}; }
    static refusing_array adopt(managed_tensor) { throw std::runtime_error{"full"}; }
};

namespace {

/// Checks that an import fails with `code`, and that no Python error is set then.
void refuses(errc code, PyObject* x, ferry::request const& req = {}) {
    auto const got = try_from_python<managed_tensor>(x, req);
    CHECK(PyErr_Occurred() == nullptr);
    support::fails(code, [&] { static_cast<void>(got.value()); });
}

}  // namespace

TEST_CASE("R64: an object without a protocol is an error without an exception, the first time and later") {
    support::start_python();
    for (auto const* text : {"3", "b'bytes'", "'text'", "None", "[]", "object()", "type('C', (), {})()", "int",
                             "type('C', (), {'__dlpack__': 1})"}) {
        INFO(std::string{text});
        reference const x = support::eval(text);
        for (int i = 0; i < 3; ++i) refuses(errc::argument, x.get());
        CHECK_THROWS_AS(static_cast<void>(ferry::python::from_python<managed_tensor>(x.get(), {})),
                        ferry::python::error_is_set);
        CHECK(support::taken_error(PyExc_TypeError).find("expects an object with __dlpack__") != std::string::npos);
    }
    // Checked at once: another type may take its place in the cache.
    refuses(errc::argument, support::eval("3").get());
    auto const& cache = ferry::python::detail::producer_cache::known();
    CHECK(cache.knows_other(&PyLong_Type));
    CHECK_FALSE(cache.knows(&PyLong_Type));
}

TEST_CASE("R64: a type that gets __dlpack__ later, and an object with its own, are not taken for objects without") {
    support::start_python();
    reference const type = support::eval("type('Later', (), {'__slots__': ()})");
    reference const object{PyObject_CallNoArgs(type.get())};
    for (int i = 0; i < 2; ++i) refuses(errc::argument, object.get());
    CHECK(ferry::python::detail::producer_cache::known().knows_other(reinterpret_cast<PyTypeObject*>(type.get())));
    reference const method = support::eval("lambda self, **how: 1 // 0");
    REQUIRE(PyObject_SetAttrString(type.get(), "__dlpack__", method.get()) == 0);
    refuses(errc::foreign_exception, object.get());

    reference const proxy_type = support::eval("type('Proxy', (), {})");
    reference const plain{PyObject_CallNoArgs(proxy_type.get())}, proxy{PyObject_CallNoArgs(proxy_type.get())};
    refuses(errc::argument, plain.get());
    reference const own = support::eval("lambda **how: 1 // 0");
    REQUIRE(PyObject_SetAttrString(proxy.get(), "__dlpack__", own.get()) == 0);
    refuses(errc::foreign_exception, proxy.get());
}

TEST_CASE("R81: an exception of the producer is discarded, or given to a caller that passes a reference") {
    support::start_python();
    reference const producer = support::eval("type('P', (), {'__dlpack__': lambda self, **how: {}['no such key']})()");
    refuses(errc::foreign_exception, producer.get());
    reference raised;
    auto const got = try_from_python<managed_tensor>(producer.get(), {}, ferry::host_only, &raised);
    CHECK_FALSE(got.has_value());
    CHECK(PyErr_Occurred() == nullptr);
    REQUIRE(raised);
    CHECK(PyErr_GivenExceptionMatches(raised.get(), PyExc_KeyError) != 0);
    reference const trace{PyException_GetTraceback(raised.get())};
    CHECK(trace);

    reference const full =
        support::eval("type('P', (), {'__dlpack__': lambda self, **how: exec('raise MemoryError')})()");
    refuses(errc::out_of_memory, full.get());
    reference const number = support::eval("type('P', (), {'__dlpack__': lambda self, **how: 3})()");
    refuses(errc::foreign_exception, number.get());  // not a capsule
}

TEST_CASE("R63: a capsule is imported once, and is unchanged by a failure to read it") {
    support::start_python();
    float value = 3;
    auto const capsule_of = [&](ferry::version max) {
        return reference{ferry::python::to_capsule(
            ferry::make_managed(std::make_unique<int>(0), ferry::tensor_view{&value, {}}), max)};
    };
    for (auto const version : {ferry::version::current, ferry::version::legacy}) {
        reference const capsule = capsule_of(version);
        auto const got = try_from_python<managed_tensor>(capsule.get(), {});
        REQUIRE(got.has_value());
        CHECK(got->view().data() == &value);
        CHECK(got->view().is_read_only() == version.is_legacy());
        refuses(errc::consumed, capsule.get());
    }
    reference const legacy = capsule_of(ferry::version::legacy);
    auto const writable = ferry::python::try_from_capsule(legacy.get(), ferry::flags::none);
    REQUIRE(writable.has_value());
    CHECK_FALSE(writable->view().is_read_only());
    reference const other{PyCapsule_New(&value, "other", nullptr)};
    refuses(errc::argument, other.get());
    CHECK(PyCapsule_IsValid(other.get(), "other") != 0);
    CHECK(ferry::python::try_from_capsule(Py_None).error().code() == errc::argument);
}

TEST_CASE("R15: the flags of a legacy tensor are the assumed ones, of a capsule and of every path through __dlpack__") {
    support::start_python();
    float value = 3;
    auto const legacy = [&] {
        return ferry::python::to_capsule(ferry::make_managed(std::make_unique<int>(0), ferry::tensor_view{&value, {}}),
                                         ferry::version::legacy);
    };
    reference const type = support::eval("type('P', (), {'__dlpack__': lambda self, **how: self.made.pop()})");
    reference const producer{PyObject_CallNoArgs(type.get())};
    for (auto const assumed : {ferry::flags::none, ferry::flags::read_only})
        for (auto const& req : {ferry::request{}, ferry::request{.copy = ferry::copy_policy::never}})
            for (bool const is_object : {false, true}) {
                auto const next = [&] {
                    reference capsule{legacy()};
                    if (!is_object) return capsule;
                    reference const list{Py_BuildValue("[O]", capsule.get())};
                    REQUIRE(PyObject_SetAttrString(producer.get(), "made", list.get()) == 0);
                    return reference{Py_NewRef(producer.get())};
                };
                auto const thrown =
                    ferry::python::from_python<managed_tensor>(next().get(), req, ferry::host_only, assumed);
                CHECK(thrown.view().is_read_only() == (assumed == ferry::flags::read_only));
                auto const tried =
                    try_from_python<managed_tensor>(next().get(), req, ferry::host_only, nullptr, assumed);
                REQUIRE(tried.has_value());
                CHECK(tried->view().is_read_only() == (assumed == ferry::flags::read_only));
            }
}

TEST_CASE("R54: the import of an adapter that throws is an error, and the tensor is released") {
    support::start_python();
    float value = 3;
    auto const owner = std::make_shared<int>(0);
    reference const capsule{
        ferry::python::to_capsule(ferry::make_managed(std::shared_ptr{owner}, ferry::tensor_view{&value, {}}))};
    auto const got = try_from_python<refusing_array>(capsule.get(), {});
    REQUIRE_FALSE(got.has_value());
    CHECK(got.error().code() == errc::foreign_exception);
    CHECK(std::string{got.error().what()}.find("full") != std::string::npos);
    CHECK(owner.use_count() == 1);
}

TEST_CASE("R53: copy_policy::always makes new memory from a copy in a capsule, and not from the copy of a producer") {
    support::start_python();
    float value = 3;
    ferry::request const always{.copy = ferry::copy_policy::always};
    auto const copy = [&] {
        return ferry::python::to_capsule(
            ferry::make_managed(std::make_unique<int>(0), ferry::tensor_view{&value, {}}, ferry::flags::is_copied));
    };
    reference const type = support::eval("type('P', (), {'__dlpack__': lambda self, **how: self.made.pop()})");
    for (bool const is_object : {false, true}) {
        auto const next = [&] {
            reference capsule{copy()};
            if (!is_object) return capsule;
            reference producer{PyObject_CallNoArgs(type.get())};
            reference const list{Py_BuildValue("[O]", capsule.get())};
            REQUIRE(PyObject_SetAttrString(producer.get(), "made", list.get()) == 0);
            return producer;
        };
        auto const thrown = ferry::python::from_python<managed_tensor>(next().get(), always);
        auto const tried = try_from_python<managed_tensor>(next().get(), always);
        REQUIRE(tried.has_value());
        for (auto const* const got : {&thrown, &*tried}) {
            CHECK(got->is_copied());
            CHECK((got->view().data() == &value) == is_object);
        }
    }
}
