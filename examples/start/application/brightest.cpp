#include <ferry/python.hpp>  // first: CPython requires its headers before the standard library's

#include <pybind11/pybind11.h>

#include <cstdint>
#include <exception>
#include <limits>

// Returns the largest element of a matrix from any library.
float brightest(pybind11::object const& x) {
    // Shares memory that the host can read; copies other memory to the host.
    auto const tensor =
        ferry::python::from_python<ferry::managed_tensor>(x.ptr(), {.device = ferry::cpu});
    auto const pixels = tensor.as<float const, 2>();  // type, rank and device are checked here, once
    float most = -std::numeric_limits<float>::infinity();
    for (std::int64_t row = 0; row < pixels.extent(0); ++row)
        for (std::int64_t column = 0; column < pixels.extent(1); ++column)
            if (pixels(row, column) > most) most = pixels(row, column);
    return most;
}

PYBIND11_MODULE(brightest, m) {
    // Translates ferry's exceptions into Python's.
    pybind11::register_exception_translator([](std::exception_ptr thrown) {
        if (!thrown) return;
        try {
            std::rethrow_exception(thrown);
        } catch (ferry::error const&) {
            ferry::python::translate_exception();
        } catch (ferry::python::error_is_set const&) {
            ferry::python::translate_exception();
        }
    });
    m.def("brightest", &brightest);
}
