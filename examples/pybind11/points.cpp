// Clouds of points from the arrays of every Python library that supports DLPack.
#include <ferry/python/pybind11.hpp>

#include <pybind11/stl.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace {

// [cloud]
// A custom array that holds any tensor of points. Imports adopt the tensor; exports share it.
struct cloud {
    std::shared_ptr<ferry::managed_tensor> points;
};

}  // namespace

template <>
struct ferry::array_traits<cloud> {
    static tensor_view view(cloud const& c) { return c.points->view(); }
    static cloud share(cloud const& c) { return c; }
    static cloud adopt(managed_tensor m) {
        if (m.rank() != 2) throw std::invalid_argument{"expected a tensor of 2 dimensions with one point in each row"};
        return {std::make_shared<managed_tensor>(std::move(m))};
    }
};
// [/cloud]

namespace {

using points = ferry::typed_view<double const, 2>;
using point = ferry::typed_view<double const, 1>;

double squared(points all, std::int64_t i, point to) {
    double sum = 0;
    for (std::int64_t k = 0; k < to.extent(0); ++k) sum += (all(i, k) - to(k)) * (all(i, k) - to(k));
    return sum;
}

// [nearest]
// Returns the index of the point nearest to another one. The call guard below releases the GIL.
std::int64_t nearest(points all, point to) {
    if (all.extent(1) != to.extent(0)) throw std::invalid_argument{"expected as many coordinates as the points have"};
    std::int64_t best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < all.extent(0); ++i)
        if (auto const d = squared(all, i, to); d < least) least = d, best = i;
    return best;
}
// [/nearest]

// Moves the points, so that their mean is the origin.
void centre(ferry::typed_view<double, 2> all) {
    for (std::int64_t k = 0; k < all.extent(1); ++k) {
        double mean = 0;
        for (std::int64_t i = 0; i < all.extent(0); ++i) mean += all(i, k) / static_cast<double>(all.extent(0));
        for (std::int64_t i = 0; i < all.extent(0); ++i) all(i, k) -= mean;
    }
}

// Returns the weighted mean distance from the origin.
double radius(points all, std::optional<point> weights) {
    double sum = 0, total = 0;
    for (std::int64_t i = 0; i < all.extent(0); ++i) {
        double length = 0;
        for (std::int64_t k = 0; k < all.extent(1); ++k) length += all(i, k) * all(i, k);
        auto const w = weights ? weights->at(i) : 1.0;
        sum += w * std::sqrt(length);
        total += w;
    }
    return sum / total;
}

}  // namespace

// [module]
PYBIND11_MODULE(points, m, py::mod_gil_not_used()) {
    m.def("nearest", &nearest, py::arg("points"), py::arg("to"), py::call_guard<py::gil_scoped_release>());
    m.def("centre", &centre, py::arg("points"));
    m.def("radius", &radius, py::arg("points"), py::arg("weights") = py::none());
    m.def("keep", [](cloud c) { return c; }, py::arg("points"));
    m.def("describe", [](ferry::typed_view<float const, 2>) { return "floats"; }, py::arg("points"));
    m.def("describe", [](points) { return "doubles"; }, py::arg("points"));
    m.def("describe", [](cloud const&) { return "another data type"; }, py::arg("points"));
    ferry::python::report_errors(m);
}
// [/module]
