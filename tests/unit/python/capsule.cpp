#include "interpreter.hpp"

#include "support/counting_producer.hpp"
#include "support/fails.hpp"

#include <cstring>
#include <utility>

using ferry::python::reference;
using support::counting_producer;
using support::legacy_producer;

namespace {

float values[6] = {0, 1, 2, 3, 4, 5};

template <class Producer>
void check_the_life_of_a_capsule(char const* name, char const* used) {
    support::start_python();
    Producer p{values, support::float32, {2, 3}};
    {
        reference const unused{ferry::python::detail::make_capsule(&p.raw)};
        CHECK(std::strcmp(PyCapsule_GetName(unused.get()), name) == 0);
    }
    CHECK(p.deleter_calls == 1);

    reference capsule{ferry::python::detail::make_capsule(&p.raw)};
    {
        auto const tensor = ferry::python::from_capsule(capsule.get());
        CHECK(std::strcmp(PyCapsule_GetName(capsule.get()), used) == 0);
        CHECK(tensor.view().data() == values);
        try {
            static_cast<void>(ferry::python::from_capsule(capsule.get()));
            FAIL_CHECK("a second use");
        } catch (ferry::python::error_is_set const&) {
            CHECK(support::taken_error(PyExc_ValueError).find("consumed already") != std::string::npos);
        }
        capsule = reference{};
        CHECK(p.deleter_calls == 1);
    }
    CHECK(p.deleter_calls == 2);
}

}  // namespace

TEST_CASE("R60-R63, R68: the life of a versioned capsule") {
    check_the_life_of_a_capsule<counting_producer>("dltensor_versioned", "used_dltensor_versioned");
}

TEST_CASE("R60-R63, R68: the life of a legacy capsule") {
    check_the_life_of_a_capsule<legacy_producer>("dltensor", "used_dltensor");
}

TEST_CASE("R61: an error in flight survives the end of a capsule") {
    support::start_python();
    counting_producer p{values, support::float32, {2, 3}};
    static PyObject* seen = nullptr;
    p.raw.deleter = [](DLManagedTensorVersioned*) { seen = PyErr_Occurred(); };
    PyObject* const capsule = ferry::python::detail::make_capsule(&p.raw);
    PyErr_SetString(PyExc_KeyError, "mine");
    Py_DECREF(capsule);
    CHECK(seen == nullptr);
    CHECK(support::taken_error(PyExc_KeyError) == "mine");
}

TEST_CASE("R5: a capsule of a tensor without deleter ends quietly") {
    support::start_python();
    counting_producer p{values, support::float32, {2, 3}};
    p.raw.deleter = nullptr;
    {
        reference const capsule{ferry::python::detail::make_capsule(&p.raw)};
    }
    CHECK(p.deleter_calls == 0);
}

TEST_CASE("R62: what fails after the renaming has run the deleter, what fails before has not") {
    support::start_python();
    counting_producer p{values, {99, 32, 1}, {2, 3}};
    reference const capsule{ferry::python::detail::make_capsule(&p.raw)};
    CHECK_THROWS_AS(static_cast<void>(ferry::python::from_capsule(capsule.get())), ferry::error);
    CHECK(p.deleter_calls == 1);

    counting_producer other{values, support::float32, {2, 3}};
    reference const named{PyCapsule_New(&other.raw, "something else", nullptr)};
    CHECK_THROWS_AS(static_cast<void>(ferry::python::from_capsule(named.get())), ferry::python::error_is_set);
    support::taken_error(PyExc_ValueError);
    CHECK_THROWS_AS(static_cast<void>(ferry::python::from_capsule(Py_None)), ferry::python::error_is_set);
    support::taken_error(PyExc_TypeError);
    CHECK(other.deleter_calls == 0);
}

TEST_CASE("R62: a view in a capsule leaves the capsule unchanged, and other objects have none") {
    support::start_python();
    counting_producer p{values, support::float32, {2, 3}};
    {
        reference const capsule{ferry::python::detail::make_capsule(&p.raw)};
        auto const v = ferry::python::view_in_capsule(capsule.get());
        REQUIRE(v.has_value());
        CHECK(v->data() == values);
        CHECK(v->extent(1) == 3);
        CHECK_FALSE(v->is_read_only());
        CHECK(p.deleter_calls == 0);
        auto const tensor = ferry::python::from_capsule(capsule.get());
        CHECK_FALSE(ferry::python::view_in_capsule(capsule.get()).has_value());  // consumed
    }
    CHECK(p.deleter_calls == 1);
    CHECK_FALSE(ferry::python::view_in_capsule(Py_None).has_value());
    p.raw.dl_tensor.ndim = -1;
    {
        reference const invalid{ferry::python::detail::make_capsule(&p.raw)};
        CHECK_FALSE(ferry::python::view_in_capsule(invalid.get()).has_value());
    }
    CHECK(p.deleter_calls == 2);
}

TEST_CASE("R15: a legacy capsule is read-only, unless the caller states its flags") {
    support::start_python();
    legacy_producer p{values, support::float32, {2, 3}};
    reference capsule{ferry::python::detail::make_capsule(&p.raw)};
    CHECK(ferry::python::view_in_capsule(capsule.get())->is_read_only());
    CHECK_FALSE(ferry::python::view_in_capsule(capsule.get(), ferry::flags::none)->is_read_only());
    auto const writable = [](ferry::tensor_view const& v) { return !v.is_read_only(); };
    CHECK(ferry::python::view_in_capsule(capsule.get(), ferry::flags::none, writable));
    CHECK_FALSE(ferry::python::view_in_capsule(capsule.get(), ferry::flags::read_only, writable));
    CHECK_FALSE(ferry::python::view_in_capsule(Py_None, ferry::flags::none, writable));
    CHECK(ferry::python::from_capsule(capsule.get()).is_read_only());
    capsule = reference{ferry::python::detail::make_capsule(&p.raw)};
    CHECK_FALSE(ferry::python::from_capsule(capsule.get(), ferry::flags::none).is_read_only());
    CHECK(p.deleter_calls == 2);
}

TEST_CASE("R13, R32: the flags of a legacy capsule apply to its validation") {
    support::start_python();
    std::int64_t const step = 1;
    legacy_producer p{values, {kDLFloat4_e2m1fn, 4, 1}, {std::int64_t{1} << 60}};
    p.raw.dl_tensor.strides = const_cast<std::int64_t*>(&step);
    reference const capsule{ferry::python::detail::make_capsule(&p.raw)};
    CHECK(ferry::python::view_in_capsule(capsule.get()).has_value());
    auto const padded = ferry::flags::subbyte_padded;  // twice as many bits, which exceed 63 bits
    CHECK_FALSE(ferry::python::view_in_capsule(capsule.get(), padded).has_value());
    support::fails(ferry::errc::overflow,
                   [&] { static_cast<void>(ferry::python::from_capsule(capsule.get(), padded)); });
    CHECK(p.deleter_calls == 1);
}

TEST_CASE("R4, R60: a tensor becomes a capsule of the version that the consumer supports") {
    support::start_python();
    counting_producer p{values, support::float32, {2, 3}};
    {
        reference const capsule{ferry::python::to_capsule(ferry::from_dlpack(&p.raw))};
        CHECK(std::strcmp(PyCapsule_GetName(capsule.get()), "dltensor_versioned") == 0);
    }
    CHECK(p.deleter_calls == 1);
    {
        reference const capsule{ferry::python::to_capsule(ferry::from_dlpack(&p.raw), ferry::version::legacy)};
        CHECK(std::strcmp(PyCapsule_GetName(capsule.get()), "dltensor") == 0);
        CHECK(ferry::python::view_in_capsule(capsule.get())->data() == values);
    }
    CHECK(p.deleter_calls == 2);
    p.raw.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    {
        auto tensor = ferry::from_dlpack(&p.raw);
        support::fails(ferry::errc::read_only, [&] {
            static_cast<void>(ferry::python::to_capsule(std::move(tensor), ferry::version::legacy));
        });
        CHECK(static_cast<bool>(tensor));
        CHECK(p.deleter_calls == 2);
    }
    CHECK(p.deleter_calls == 3);
    support::fails(ferry::errc::consumed, [] { static_cast<void>(ferry::python::to_capsule({})); });
}
