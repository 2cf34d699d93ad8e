#include <ferry/python.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

NB_MODULE(app, m) {
    // Accepts any object with __dlpack__.
    m.def("total", [](nb::handle x) {
        auto const tensor = ferry::python::from_python<ferry::managed_tensor>(x.ptr(), {.device = ferry::cpu});
        auto const values = tensor.as<float const, 1>();
        float sum = 0;
        for (std::int64_t i = 0; i < values.extent(0); ++i) sum += values(i);
        return sum;
    });
    m.def("numbers", [] {
        static float values[] = {1, 2, 3};
        return nb::ndarray<nb::array_api, float, nb::ndim<1>>{values, {3}, nb::none()};
    });
}
