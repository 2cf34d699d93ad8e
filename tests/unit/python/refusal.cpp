#include <ferry/python/refusal.hpp>

#include <doctest/doctest.h>

#include <ferry/base/dtype.hpp>

#include <string>

namespace fp = ferry::python::detail;

namespace {

constexpr char nanobind_report[] =
    "f(): incompatible function arguments. The following argument types are supported:\n"
    "    1. f(image: tensor[float32, 2, writable], weights: dict[str, list[int]] = {1: 2, 3: 4}, *, by: float = 1.0) -> None\n"
    "    2. f(self: m.T, x: tuple[int, int], y, z: int, last: int) -> int\n"
    "\n"
    "Invoked with types: numpy.ndarray, int";

constexpr char pybind11_report[] =
    "f(): incompatible function arguments. The following argument types are supported:\n"
    "    1. (image: tensor[float32, 2], by: float = 1.0) -> None\n"
    "\n"
    "Invoked with: array([1]), 3";

}  // namespace

TEST_CASE("parameter_name reads the first signature with enough parameters") {
    CHECK(fp::parameter_name(nanobind_report, 0) == "image");
    CHECK(fp::parameter_name(nanobind_report, 1) == "weights");
    CHECK(fp::parameter_name(nanobind_report, 4) == "last");
    CHECK(fp::parameter_name(nanobind_report, 5) == "");
    CHECK(fp::parameter_name(pybind11_report, 0) == "image");
    CHECK(fp::parameter_name(pybind11_report, 1) == "by");
    CHECK(fp::parameter_name(pybind11_report, 2) == "");
    CHECK(fp::parameter_name("", 0) == "");
    CHECK(fp::parameter_name("\n    1. ", 0) == "");
    CHECK(fp::parameter_name("\n    1. f()", 0) == "");
    CHECK(fp::parameter_name("\n    1. f(x", 0) == "x");
}

TEST_CASE("the message of a mismatch names the first difference") {
    fp::mismatch difference{ferry::dtype_of<double>, ferry::dtype_of<float>, 3, 2};
    auto const text = [&] { return std::string{difference.text().c_str()}; };
    CHECK(text() == "expected float32 elements, got float64: convert the tensor to float32");
    difference.actual = difference.expected;
    CHECK(text() == "expected 2 dimensions, got 3: reshape the tensor");
    difference.expected_rank = 1;
    CHECK(text() == "expected 1 dimension, got 3: reshape the tensor");
    difference.rank = difference.expected_rank;
    CHECK(text() == "expected a writable tensor, got a read-only one (R11): pass a writable copy");
}

TEST_CASE("refusals are recorded once per reason, during calls, up to a limit") {
    auto& recorded = fp::refusals::of_thread();
    int objects[20] = {};
    auto const object = [&](int i) { return reinterpret_cast<PyObject*>(&objects[i]); };
    fp::mismatch const difference{ferry::dtype_of<double>, ferry::dtype_of<float>, 2, 2};
    fp::record(object(0), difference);
    fp::record(object(0), [] { return ferry::message{"outside of a call"}; });
    CHECK(recorded.count == 0);

    ++recorded.calls;
    for (int i = 0; i < 2; ++i) {
        fp::record(object(0), difference);
        fp::record(object(0), [] { return ferry::message{"a reason"}; });
        fp::record(object(1), [] { return ferry::message{"a reason"}; });
    }
    CHECK(recorded.count == 3);
    for (int i = 0; i < 20; ++i) fp::record(object(i), difference);
    CHECK(recorded.count == fp::refusals::limit);
    --recorded.calls;
    recorded.count = 0;
}
