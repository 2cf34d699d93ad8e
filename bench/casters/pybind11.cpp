// The same functions over ferry's arguments and over pybind11's own.
#include <ferry/python/pybind11.hpp>

#include <pybind11/numpy.h>

namespace py = pybind11;

PYBIND11_MODULE(bench_pybind11, m) {
    m.def("reads", [](ferry::typed_view<float const, 2> v) { return v(0, 0); }, py::arg("image"));
    m.def("reads_array", [](py::array_t<float> const& a) { return a.unchecked<2>()(0, 0); }, py::arg("image"));
    m.def("writes", [](ferry::typed_view<float, 2> v) { return v(0, 0); }, py::arg("image"));
    m.def("writes_array", [](py::array_t<float>& a) { return a.mutable_unchecked<2>()(0, 0); }, py::arg("image"));
    ferry::python::report_errors(m);
}
