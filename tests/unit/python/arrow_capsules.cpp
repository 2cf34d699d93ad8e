// PyCapsules of Arrow's structs are imported once, or released once.
#include "interpreter.hpp"

#include <ferry/arrow.hpp>
#include <ferry/python/arrow.hpp>

#include <cstring>
#include <memory>
#include <vector>

using ferry::column;
using ferry::python::reference;

namespace {

std::int32_t const numbers[] = {1, 2, 3};

column ints(std::shared_ptr<void const> owner) {
    ferry::column_buffer const buffers[] = {{}, {numbers, sizeof numbers}};
    return ferry::make_column({.format = "i", .length = 3, .buffers = buffers}, std::move(owner));
}

/// Returns a capsule of a stream of the chunks.
reference stream_of(std::vector<column> const& chunks) {
    ArrowArrayStream stream{};
    ferry::to_arrow(ferry::chunked{chunks, chunks[0]}, &stream);
    reference capsule{ferry::python::arrow_stream_capsule(stream)};
    CHECK(!stream.release);  // moved into the capsule
    return capsule;
}

/// Returns an object whose `__arrow_c_stream__` returns the capsule.
reference producer_of(reference const& capsule) {
    auto object =
        support::eval("type('Producer', (), {'__arrow_c_stream__': lambda self, schema=None: self.capsule})()");
    REQUIRE(PyObject_SetAttrString(object.get(), "capsule", capsule.get()) == 0);
    return object;
}

}  // namespace

TEST_CASE("the capsule of a stream that is not consumed releases the stream") {
    support::start_python();
    auto owner = std::make_shared<int>(1);
    std::weak_ptr<int> const alive = owner;
    {
        auto const capsule = stream_of({ints(std::move(owner))});
        CHECK(std::strcmp(PyCapsule_GetName(capsule.get()), "arrow_array_stream") == 0);
        CHECK(!alive.expired());
    }
    CHECK(alive.expired());
}

TEST_CASE("a stream of one chunk is shared, and several chunks are concatenated") {
    support::start_python();
    auto owner = std::make_shared<int>(1);
    std::weak_ptr<int> const alive = owner;
    {
        auto const one = ferry::python::column_from_python(producer_of(stream_of({ints(owner)})).get());
        CHECK(one.view().buffers()[1].data == numbers);
        auto const joined =
            ferry::python::column_from_python(producer_of(stream_of({ints(owner), ints(std::move(owner))})).get());
        CHECK(joined.length() == 6);
        CHECK(joined.values<std::int32_t>()[5] == 3);
        CHECK(!alive.expired());
    }
    CHECK(alive.expired());
}

TEST_CASE("the capsule of a stream can be imported once") {
    support::start_python();
    auto const producer = producer_of(stream_of({ints(nullptr)}));
    CHECK(ferry::python::column_from_python(producer.get()).length() == 3);
    try {
        static_cast<void>(ferry::python::column_from_python(producer.get()));
        FAIL_CHECK("a second import");
    } catch (ferry::error const& e) {
        CHECK(e.code() == ferry::errc::argument);
    } catch (ferry::python::error_is_set const&) {
        PyErr_Clear();
    }
}
