// The same functions over ferry's arguments and over nanobind's own.
#include <ferry/python/nanobind.hpp>

#include <nanobind/ndarray.h>

#include <array>
#include <cstdint>
#include <vector>

namespace nb = nanobind;

namespace {

template <class View>
float corner(View const& v) {
    return v(0, 0);
}

struct image {
    std::vector<float> pixels;
    std::array<std::int64_t, 2> extents;
};

}  // namespace

template <>
struct ferry::array_traits<image> {
    static tensor_view view(image& i) { return {i.pixels.data(), i.extents}; }
};

NB_MODULE(bench_nanobind, m) {
    nb::set_leak_warnings(false);
    m.def("reads", [](ferry::typed_view<float const, 2> v) { return corner(v); }, nb::arg("image"));
    m.def(
        "reads_ndarray", [](nb::ndarray<float const, nb::ndim<2>, nb::device::cpu> const& v) { return corner(v); },
        nb::arg("image"));
    m.def("writes", [](ferry::typed_view<float, 2> v) { return corner(v); }, nb::arg("image"));
    m.def(
        "writes_ndarray", [](nb::ndarray<float, nb::ndim<2>, nb::device::cpu> const& v) { return corner(v); },
        nb::arg("image"));
    m.def("tensor", [](ferry::managed_tensor const& t) { return t.rank(); }, nb::arg("image"));
    m.def("tensor_ndarray", [](nb::ndarray<> const& a) { return a.ndim(); }, nb::arg("image"));
    // The fourth of four overloads.
    m.def("fourth", [](ferry::typed_view<std::int32_t const, 2>) { return 1; }, nb::arg("image"));
    m.def("fourth", [](ferry::typed_view<std::int64_t const, 2>) { return 2; }, nb::arg("image"));
    m.def("fourth", [](ferry::typed_view<double const, 2>) { return 3; }, nb::arg("image"));
    m.def("fourth", [](ferry::typed_view<float const, 2>) { return 4; }, nb::arg("image"));
    m.def(
        "fourth_ndarray", [](nb::ndarray<std::int32_t const, nb::ndim<2>, nb::device::cpu> const&) { return 1; },
        nb::arg("image"));
    m.def(
        "fourth_ndarray", [](nb::ndarray<std::int64_t const, nb::ndim<2>, nb::device::cpu> const&) { return 2; },
        nb::arg("image"));
    m.def(
        "fourth_ndarray", [](nb::ndarray<double const, nb::ndim<2>, nb::device::cpu> const&) { return 3; },
        nb::arg("image"));
    m.def(
        "fourth_ndarray", [](nb::ndarray<float const, nb::ndim<2>, nb::device::cpu> const&) { return 4; },
        nb::arg("image"));
    // An array that a function has made, for NumPy.
    m.def("made", []() -> ferry::python::as_numpy<image> { return image{std::vector<float>(20), {4, 5}}; });
    m.def("made_ndarray", [] {
        auto* const elements = new std::vector<float>(20);
        nb::capsule const owner{elements, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); }};
        return nb::ndarray<nb::numpy, float, nb::ndim<2>>(elements->data(), {4, 5}, owner);
    });
    ferry::python::report_errors(m);
}
