#include <ferry/python/nanobind.hpp>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace fw = nanobind;

#include "functions.hpp"

NB_MODULE(casters_nanobind, m) {
    casters::bind(m, nanobind::call_guard<nanobind::gil_scoped_release>{});
    m.def(
        "empty_or", [](ferry::managed_tensor const& t) { return static_cast<bool>(t); },
        nanobind::arg("tensor").none());
    m.def(
        "ranks",
        [](std::vector<ferry::managed_tensor> const& all) {
            std::vector<int> out;
            for (auto const& t : all) out.push_back(t.rank());
            return out;
        },
        nanobind::arg("tensors"));
    nanobind::class_<casters::bound>(m, "Bound").def(nanobind::init<>()).def_ro("value", &casters::bound::value);
    m.def("bound_value", [](casters::bound const& b) { return b.value; }, nanobind::arg("bound"));
    nanobind::class_<casters::sums>(m, "Sums")
        .def(nanobind::init<>())
        .def("add", &casters::sums::add, nanobind::arg("image"))
        .def_static("of", &casters::sums::of, nanobind::arg("image"))
        .def_ro("total", &casters::sums::total);
    ferry::python::report_errors(m);
    m.def("unexplained", [](casters::reads<float> image) { return casters::sum(image); }, nanobind::arg("image"));
}
