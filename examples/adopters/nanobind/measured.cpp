// Functions whose calls are timed.
#include <nanobind/ndarray.h>

namespace nb = nanobind;

namespace {

float data[6] = {1, 2, 3, 4, 5, 6};

template <class Framework>
nb::ndarray<Framework, float> result(nb::object const& owner) {
    return nb::ndarray<Framework, float>(data, {2, 3}, owner);
}

}  // namespace

NB_MODULE(measured, m) {
    m.def("nothing", [](nb::handle) {});
    m.def("typed", [](nb::ndarray<float> const&) {});
    m.def("read_only", [](nb::ndarray<nb::ro> const&) {});
    m.def("overloaded", [](nb::ndarray<std::int32_t> const&) {});
    m.def("overloaded", [](nb::ndarray<double> const&) {});
    m.def("overloaded", [](nb::ndarray<float> const&) {});
    m.def("to_numpy", [](nb::object owner) { return result<nb::numpy>(owner); });
    m.def("to_capsule", [](nb::object owner) { return result<nb::no_framework>(owner); });
    m.def("to_object", [](nb::object owner) { return result<nb::array_api>(owner); });
}
