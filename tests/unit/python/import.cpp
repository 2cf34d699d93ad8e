#include "interpreter.hpp"

#include <optional>
#include <string>

using ferry::device;
using ferry::device_type;
using ferry::stream_token;
using ferry::python::reference;

namespace {

/// What a producer was told, one call after the other, that takes no stream, and moves nothing.
std::string told(ferry::request const& wish, std::optional<device> at) {
    support::start_python();
    reference const producer{
        support::eval("(lambda calls: type('P', (), {'calls': calls, '__dlpack__': lambda self, max_version, **how:"
                      " (calls.append(dict(sorted(how.items()))), int('what is this?') if how else 7)[1]}))([])()")};
    try {
        reference const got = ferry::python::detail::ask(producer.get(), wish, at);
        CHECK(PyLong_AsLong(got.get()) == 7);
    } catch (ferry::python::error_is_set const&) {
        static_cast<void>(support::taken_error(PyExc_ValueError));
    }
    reference const calls{PyObject_GetAttrString(producer.get(), "calls")}, text{PyObject_Str(calls.get())};
    return PyUnicode_AsUTF8(text.get());
}

constexpr device gpu{device_type::cuda, 0};

}  // namespace

TEST_CASE(
    "R48, R58: who moves nothing hears no stream of the wanted device in the plain request, unless it is its own") {
    ferry::request const to_gpu{.device = gpu, .stream = stream_token::cuda_legacy_default()};
    CHECK(told(to_gpu, ferry::cpu) == "[{'dl_device': (2, 0), 'stream': 1}, {}]");
    CHECK(told(to_gpu, device{device_type::rocm, 0}) == "[{'dl_device': (2, 0), 'stream': 1}, {}]");
    CHECK(told(to_gpu, device{device_type::cuda, 1}) == "[{'dl_device': (2, 0), 'stream': 1}, {'stream': 1}]");
    CHECK(told(to_gpu, std::nullopt) == "[{'dl_device': (2, 0), 'stream': 1}, {'stream': 1}]");
    CHECK(told({.device = gpu, .stream = stream_token::no_sync()}, ferry::cpu) ==
          "[{'dl_device': (2, 0), 'stream': -1}, {}]");
}

TEST_CASE("R81: what was asked for with copy=False is not asked for otherwise") {
    CHECK(told({.device = gpu, .copy = ferry::copy_policy::never, .stream = stream_token::cuda_legacy_default()},
               ferry::cpu) == "[{'copy': False, 'dl_device': (2, 0), 'stream': 1}]");
}
