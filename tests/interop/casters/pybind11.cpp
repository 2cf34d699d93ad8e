#include <ferry/python/pybind11.hpp>

#include <pybind11/stl.h>

namespace fw = pybind11;

#include "functions.hpp"

PYBIND11_MODULE(casters_pybind11, m, pybind11::mod_gil_not_used()) {
    casters::bind(m, pybind11::call_guard<pybind11::gil_scoped_release>{});
}
