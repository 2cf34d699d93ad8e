#include <ferry/python/nanobind.hpp>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace fw = nanobind;

#include "functions.hpp"

NB_MODULE(casters_nanobind, m) {
    m.def(
        "empty_or", [](ferry::managed_tensor const& t) { return static_cast<bool>(t); },
        nanobind::arg("tensor").none());
    casters::bind(m, nanobind::call_guard<nanobind::gil_scoped_release>{});
}
