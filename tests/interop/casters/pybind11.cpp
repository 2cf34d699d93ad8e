#include <ferry/python/pybind11.hpp>

#include <pybind11/stl.h>

namespace fw = pybind11;

#include "functions.hpp"

PYBIND11_MODULE(casters_pybind11, m) {
    casters::bind(m, pybind11::call_guard<pybind11::gil_scoped_release>{});
    m.def(
        "ranks",
        [](std::vector<ferry::managed_tensor> const& all) {
            std::vector<int> out;
            for (auto const& t : all) out.push_back(t.rank());
            return out;
        },
        pybind11::arg("tensors"));
    pybind11::class_<casters::bound>(m, "Bound").def(pybind11::init<>()).def_readonly("value", &casters::bound::value);
    m.def("bound_value", [](casters::bound const& b) { return b.value; }, pybind11::arg("bound"));
    pybind11::class_<casters::sums>(m, "Sums")
        .def(pybind11::init<>())
        .def("add", &casters::sums::add, pybind11::arg("image"))
        .def_static("of", &casters::sums::of, pybind11::arg("image"))
        .def_readonly("total", &casters::sums::total);
    ferry::python::report_errors(m);
}
