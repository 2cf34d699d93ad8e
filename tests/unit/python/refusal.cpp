#include <ferry/python/refusal.hpp>

#include <doctest/doctest.h>

#include <ferry/base/dtype.hpp>

#include <string>

namespace fp = ferry::python::detail;

namespace {

constexpr char nanobinds[] =
    "f(): incompatible function arguments. The following argument types are supported:\n"
    "    1. f(image: tensor[float32, 2, writable], weights: dict[str, list[int]] = {1: 2, 3: 4}, *, by: float = 1.0) -> None\n"
    "    2. f(self: m.T, x: tuple[int, int], y, z: int, last: int) -> int\n"
    "\n"
    "Invoked with types: numpy.ndarray, int";

constexpr char pybind11s[] =
    "f(): incompatible function arguments. The following argument types are supported:\n"
    "    1. (image: tensor[float32, 2], by: float = 1.0) -> None\n"
    "\n"
    "Invoked with: array([1]), 3";

}  // namespace

TEST_CASE("the name of a parameter is read out of the first signature that has so many") {
    CHECK(fp::parameter_name(nanobinds, 0) == "image");
    CHECK(fp::parameter_name(nanobinds, 1) == "weights");
    CHECK(fp::parameter_name(nanobinds, 4) == "last");
    CHECK(fp::parameter_name(nanobinds, 5) == "");
    CHECK(fp::parameter_name(pybind11s, 0) == "image");
    CHECK(fp::parameter_name(pybind11s, 1) == "by");
    CHECK(fp::parameter_name(pybind11s, 2) == "");
    CHECK(fp::parameter_name("", 0) == "");
    CHECK(fp::parameter_name("\n    1. ", 0) == "");
    CHECK(fp::parameter_name("\n    1. f()", 0) == "");
    CHECK(fp::parameter_name("\n    1. f(x", 0) == "x");
}

TEST_CASE("a near miss is told by what differs first") {
    fp::mismatch missed{ferry::dtype_of<double>, ferry::dtype_of<float>, 3, 2};
    CHECK(std::string{missed.text().c_str()} == "its elements are float64, and float32 is wanted");
    missed.is = missed.wanted;
    CHECK(std::string{missed.text().c_str()} == "it has 3 dimensions, and 2 are wanted");
    missed.rank = missed.wanted_rank;
    CHECK(std::string{missed.text().c_str()} == "it is read-only, and the function writes to it (R11)");
}

TEST_CASE("refusals are noted once, while somebody listens, up to a limit") {
    auto& noted = fp::refusals::here();
    int objects[20] = {};
    auto const object = [&](int i) { return reinterpret_cast<PyObject*>(&objects[i]); };
    fp::mismatch const missed{ferry::dtype_of<double>, ferry::dtype_of<float>, 2, 2};
    fp::note(object(0), missed);
    fp::note(object(0), [] { return ferry::message{"nobody asked"}; });
    CHECK(noted.count == 0);

    ++noted.listeners;
    for (int i = 0; i < 2; ++i) {
        fp::note(object(0), missed);
        fp::note(object(0), [] { return ferry::message{"because"}; });
        fp::note(object(1), [] { return ferry::message{"because"}; });
    }
    CHECK(noted.count == 3);
    for (int i = 0; i < 20; ++i) fp::note(object(i), missed);
    CHECK(noted.count == fp::refusals::limit);
    --noted.listeners;
    noted.count = 0;
}
