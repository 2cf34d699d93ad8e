#include "interpreter.hpp"

#include <string>

using namespace ferry::python;
using ferry::copy_policy;
using ferry::device_type;
using ferry::stream_token;
using ferry::version;

namespace {

template <class F>
bool is_value_error(F f) {
    try {
        f();
    } catch (error_is_set const&) {
        return !support::taken_error(PyExc_ValueError).empty();
    }
    return false;
}

stream_token stream(char const* expression, device_type type) {
    support::start_python();
    return detail::stream_from(detail::stream_number(support::eval(expression).get()), type);
}

}  // namespace

TEST_CASE("R44: what stream numbers mean on CUDA, pinned and managed memory") {
    for (auto const type : {device_type::cuda, device_type::cuda_host, device_type::cuda_managed}) {
        CHECK(stream("None", type).is_none());
        CHECK(stream("-1", type).is_no_sync());
        CHECK(stream("1", type) == stream_token::cuda_legacy_default());
        CHECK(stream("2", type) == stream_token::cuda_per_thread_default());
        CHECK(stream("0x7f0000001000", type).native_handle() == 0x7f0000001000);
        for (auto const* bad : {"0", "-2", "-2**70", "2**63 - 1", "2**80", "True", "1.0", "'1'"})
            CHECK(is_value_error([&] { static_cast<void>(stream(bad, type)); }));
    }
}

TEST_CASE("R45: what stream numbers mean on ROCm") {
    CHECK(stream("0", device_type::rocm) == stream_token::rocm_default());
    CHECK(stream("None", device_type::rocm).is_none());
    CHECK(stream("-1", device_type::rocm).is_no_sync());
    CHECK(stream("4096", device_type::rocm).native_handle() == 4096);
    for (auto const* bad : {"1", "2", "-2"})
        CHECK(is_value_error([&] { static_cast<void>(stream(bad, device_type::rocm)); }));
}

TEST_CASE("R46: the CPU takes None and -1") {
    CHECK(stream("None", device_type::cpu).is_none());
    CHECK(stream("-1", device_type::cpu).is_no_sync());
    for (auto const* bad : {"0", "1", "2", "4096"})
        CHECK(is_value_error([&] { static_cast<void>(stream(bad, device_type::cpu)); }));
}

TEST_CASE("R44, R45: a token goes back to the number that it came from") {
    for (auto const* number : {"1", "2", "4096", "-1"}) {
        auto const token = stream(number, device_type::cuda);
        reference const back = detail::to_number(token), sent = support::eval(number);
        CHECK(PyObject_RichCompareBool(back.get(), sent.get(), Py_EQ) == 1);
    }
    CHECK_FALSE(detail::to_number(stream_token{}));
}

TEST_CASE("R57: versions as they are asked for") {
    support::start_python();
    auto const of = [](char const* e) { return detail::version_from(support::eval(e).get()); };
    CHECK(of("None").is_legacy());
    CHECK(of("(0, 9)").is_legacy());
    CHECK(of("(-3, 9)").is_legacy());
    CHECK(of("(1, 0)") == version{1, 0});
    CHECK(of("[1, 2]") == version{1, 2});
    CHECK(of("(2**70, 2**70)") == version{0xFFFFFFFF, 0xFFFFFFFF});
    CHECK(is_value_error([&] { static_cast<void>(of("(1, -1)")); }));
    for (auto const* bad : {"1", "'1'", "()", "(1,)", "(1, 'x')", "(1.0, 0)", "(1, 2, 3)"}) {
        CHECK_THROWS_AS(static_cast<void>(of(bad)), error_is_set);
        CHECK(!support::taken_error(PyExc_TypeError).empty());  // as NumPy and nanobind say
    }
}

TEST_CASE("R53: copy is None, True or False, and nothing that is equal to them") {
    support::start_python();
    CHECK(detail::copy_from(Py_None) == copy_policy::if_needed);
    CHECK(detail::copy_from(Py_True) == copy_policy::always);
    CHECK(detail::copy_from(Py_False) == copy_policy::never);
    for (auto const* bad : {"0", "1", "1.0", "''"})
        CHECK(is_value_error([&] { static_cast<void>(detail::copy_from(support::eval(bad).get())); }));
}

TEST_CASE("R34: devices by name, pair and object") {
    support::start_python();
    auto const of = [](char const* e) { return as_device(support::eval(e).get()); };
    CHECK(of("'cpu'") == ferry::cpu);
    CHECK(of("'cuda'") == ferry::device{device_type::cuda, 0});
    CHECK(of("'cuda:12'") == ferry::device{device_type::cuda, 12});
    CHECK(of("'cuda_host'") == ferry::device{device_type::cuda_host, 0});
    CHECK(of("'cuda_managed:1'") == ferry::device{device_type::cuda_managed, 1});
    CHECK(of("'rocm:3'") == ferry::device{device_type::rocm, 3});
    CHECK(of("(2, 5)") == ferry::device{device_type::cuda, 5});
    CHECK(of("type('D', (), {'__dlpack_device__': lambda self: (13, 0)})()") ==
          ferry::device{device_type::cuda_managed, 0});
    for (auto const* bad :
         {"''", "'gpu'", "'cuda:'", "'cuda:x'", "'cuda:-1'", "'cuda:1 '", "'cuda:99999999999'", "'unknown'", "(1,)",
          "3", "None", "(2**40, 0)", "type('D', (), {'__dlpack_device__': lambda self: 3})()",
          "type('D', (), {'__dlpack_device__': lambda self: (1, 0)})", "'cuda\\0'"}) {
        INFO(std::string{bad});
        CHECK_FALSE(of(bad));
        CHECK(support::taken_error(PyExc_ValueError) != "");
    }
    CHECK_FALSE(of("type('D', (), {'__dlpack_device__': lambda self: {}[1]})()"));
    support::taken_error(PyExc_KeyError);
    for (auto* error : {PyExc_AttributeError, PyExc_TypeError}) {  // of the method, not for want of it
        auto const* text = error == PyExc_AttributeError
                               ? "type('D', (), {'__dlpack_device__': lambda self: self.missing})()"
                               : "type('D', (), {'__dlpack_device__': lambda self: 1 + ''})()";
        CHECK_FALSE(of(text));
        CHECK(support::taken_error(error) != "");
    }
}
