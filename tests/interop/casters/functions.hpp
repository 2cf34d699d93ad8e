// The functions that both extension modules of the caster tests bind. `fw` is the binding library.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace casters {

/// An array that adopts tensors of one dimension and is shared by reference count.
struct line {
    std::shared_ptr<ferry::managed_tensor> tensor;
};

/// An array that owns its elements: it can be moved or copied, but not shared.
struct image {
    std::vector<float> pixels;
    std::array<std::int64_t, 2> extents;
};

/// An array whose class the module binds: the type casters of ferry must not accept it.
struct bound {
    int value = 7;
};

}  // namespace casters

template <>
struct ferry::array_traits<casters::line> {
    static tensor_view view(casters::line const& l) { return l.tensor->view(); }
    static casters::line share(casters::line const& l) { return l; }
    static casters::line adopt(managed_tensor m) {
        if (m.rank() != 1) throw std::invalid_argument{"expected a line of one dimension"};
        return {std::make_shared<managed_tensor>(std::move(m))};
    }
};

template <>
struct ferry::array_traits<casters::image> {
    static tensor_view view(casters::image& i) { return {i.pixels.data(), i.extents}; }
    static tensor_view view(casters::image const& i) { return {i.pixels.data(), i.extents}; }
};

template <>
struct ferry::array_traits<casters::bound> {
    static tensor_view view(casters::bound& b) { return {&b.value, {}}; }
    static tensor_view view(casters::bound const& b) { return {&b.value, {}}; }
};
template <>
inline constexpr bool ferry::python::casts_array<casters::bound> = false;

namespace casters {

template <class T>
using reads = ferry::typed_view<T const, 2>;
template <class T>
using writes = ferry::typed_view<T, 2>;
using rows = ferry::typed_view<float const, 2, ferry::access_from::host, ferry::layout::contiguous>;

template <class View>
double sum(View const& v) {
    double total = 0;
    for (std::int64_t i = 0; i < v.extent(0); ++i)
        for (std::int64_t j = 0; j < v.extent(1); ++j) total += static_cast<double>(v(i, j));
    return total;
}

inline std::uintptr_t address(void const* p) { return reinterpret_cast<std::uintptr_t>(p); }

inline image ramp(std::int64_t height, std::int64_t width) {
    image made{std::vector<float>(static_cast<std::size_t>(height * width)), {height, width}};
    for (std::size_t i = 0; i < made.pixels.size(); ++i) made.pixels[i] = static_cast<float>(i);
    return made;
}

inline ferry::stream_token stream(ferry::device d) { return ferry::stream_token::from_cuda_handle(0x70).on_device(d); }

inline std::optional<ferry::managed_tensor> kept;

struct sums {
    double total = 0;
    void add(reads<float> image) { total += sum(image); }
    static double of(reads<float> image) { return sum(image); }
};

/// Binds a read-only member, by the function of the binding library.
template <class Class, class Member>
void read_only(Class& c, char const* name, Member member) {
    if constexpr (requires { c.def_ro(name, member); }) c.def_ro(name, member);
    else c.def_readonly(name, member);
}

template <class Module, class Released>
void bind(Module& m, Released) {
    using ferry::python::argument;
    using fw::arg;

    // Views
    m.def("total", [](reads<float> image) { return sum(image); }, arg("image"));
    m.def("total_unlocked", [](reads<float> image) { return sum(image); }, arg("image"), Released{});
    m.def(
        "dot",
        [](reads<float> left, reads<float> right, double times) {
            double out = 0;
            for (std::int64_t i = 0; i < left.extent(0); ++i)
                for (std::int64_t j = 0; j < left.extent(1); ++j) out += static_cast<double>(left(i, j) * right(i, j));
            return times * out;
        },
        arg("left"), arg("right"), arg("times") = 1.0);
    m.def(
        "scale",
        [](writes<float> image, float by) {
            for (std::int64_t i = 0; i < image.extent(0); ++i)
                for (std::int64_t j = 0; j < image.extent(1); ++j) image(i, j) *= by;
        },
        arg("image"), arg("by"));
    m.def("rows_address", [](rows image) { return address(image.data()); }, arg("image"));
    m.def("rows_address_strict", [](rows image) { return address(image.data()); }, arg("image").noconvert());
    m.def(
        "rows_sum",
        [](rows image) {
            double total = 0;
            for (float const x : image.span()) total += static_cast<double>(x);
            return total;
        },
        arg("image"));
    m.def(
        "device_address",
        [](ferry::typed_view<float const, 2, ferry::access_from::device> image) { return address(image.data()); },
        arg("image"));
    m.def(
        "total_or", [](std::optional<reads<float>> image, double otherwise) { return image ? sum(*image) : otherwise; },
        arg("image") = fw::none(), arg("otherwise") = -1.0);

    // Overloads
    m.def("kind", [](reads<float>) { return std::string{"float32, 2"}; }, arg("image"));
    m.def("kind", [](reads<double>) { return std::string{"float64, 2"}; }, arg("image"));
    m.def("kind", [](ferry::typed_view<float const, 1>) { return std::string{"float32, 1"}; }, arg("line"));
    m.def("kind", [](ferry::typed_view<std::int32_t const>) { return std::string{"int32, any"}; }, arg("any"));
    m.def("kind", [](std::string const&) { return std::string{"text"}; }, arg("text"));
    m.def("after_number", [](double, reads<float>) { return std::string{"float32"}; }, arg("x"), arg("image"));
    m.def("after_number", [](double, reads<double>) { return std::string{"float64"}; }, arg("x"), arg("image"));
    m.def("rows_first", [](rows image) { return std::pair{std::string{"rows"}, address(image.data())}; }, arg("image"));
    m.def(
        "rows_first", [](reads<float> image) { return std::pair{std::string{"any"}, address(image.data())}; },
        arg("image"));
    m.def("only_rows", [](rows image) { return std::pair{std::string{"rows"}, address(image.data())}; }, arg("image"));
    m.def("only_rows", [](int) { return std::pair{std::string{"int"}, std::uintptr_t{0}}; }, arg("number"));
    m.def("writable_or_not", [](writes<float>) { return std::string{"writable"}; }, arg("image"));
    m.def("writable_or_not", [](reads<float>) { return std::string{"read-only"}; }, arg("image"));
    m.def("host_or_device", [](reads<float>) { return std::string{"host"}; }, arg("image"));
    m.def(
        "host_or_device",
        [](ferry::typed_view<float const, 2, ferry::access_from::device>) { return std::string{"device"}; },
        arg("image"));

    // Errors and calls from a function
    m.def("fail", [](reads<float>) { throw std::runtime_error{"the function failed"}; }, arg("image"));
    m.def(
        "fail_with",
        [](reads<float> image, int code) {
            throw ferry::error{static_cast<ferry::errc>(code), "casters",
                               ferry::message{} << image.extent(0) << " rows"};
        },
        arg("image"), arg("code"));
    m.def(
        "during",
        [](reads<float> image, fw::object call) {
            call();
            return sum(image);
        },
        arg("image"), arg("call"));

    // Tensors
    m.def("identity", [](ferry::managed_tensor tensor) { return tensor; }, arg("tensor"));
    m.def(
        "describe",
        [](ferry::managed_tensor const& tensor) {
            return std::string{(ferry::message{} << tensor.dtype() << " " << tensor.rank()
                                                 << (tensor.is_read_only() ? " ro" : " rw")
                                                 << (tensor.is_copied() ? " copied" : " shared"))
                                   .c_str()};
        },
        arg("tensor"));
    m.def("data", [](ferry::managed_tensor const& tensor) { return address(tensor.view().data()); }, arg("tensor"));
    m.def(
        "data_strict", [](ferry::managed_tensor const& tensor) { return address(tensor.view().data()); },
        arg("tensor").noconvert());
    m.def("keep", [](ferry::managed_tensor tensor) { kept = std::move(tensor); }, arg("tensor"));
    m.def("drop", [] { kept.reset(); });
    m.def("drop_unlocked", [] { kept.reset(); }, Released{});
    m.def(
        "has_tensor", [](std::optional<ferry::managed_tensor> tensor) { return tensor.has_value(); },
        arg("tensor") = fw::none());
    m.def("nothing", [] { return ferry::managed_tensor{}; });

    // Arrays
    m.def("ramp", [](std::int64_t h, std::int64_t w) { return ramp(h, w); }, arg("height"), arg("width"));
    m.def(
        "ramp_numpy", [](std::int64_t h, std::int64_t w) -> ferry::python::as_numpy<image> { return ramp(h, w); },
        arg("height"), arg("width"));
    m.def(
        "ramp_torch", [](std::int64_t h, std::int64_t w) -> ferry::python::as_torch<image> { return ramp(h, w); },
        arg("height"), arg("width"));
    m.def(
        "ramp_jax", [](std::int64_t h, std::int64_t w) -> ferry::python::as_jax<image> { return ramp(h, w); },
        arg("height"), arg("width"));
    m.def(
        "ramp_nowhere",
        []() -> ferry::python::result<image, ferry::python::library<"no_such_library">> { return ramp(1, 1); });
    m.def(
        "identity_like",
        [](ferry::managed_tensor t, fw::object like) -> ferry::python::result<ferry::managed_tensor> {
            return {std::move(t), like.ptr()};
        },
        arg("tensor"), arg("like") = fw::none());
    m.def(
        "numpy_or_like",
        [](ferry::managed_tensor t, fw::object like) -> ferry::python::as_numpy<ferry::managed_tensor> {
            return {std::move(t), like.ptr()};
        },
        arg("tensor"), arg("like") = fw::none());
    m.def(
        "identity_of_library",
        [](argument<ferry::managed_tensor> t) -> ferry::python::result<ferry::managed_tensor> {
            return {std::move(*t), t.object()};
        },
        arg("tensor"));
    m.def(
        "identity_numpy", [](ferry::managed_tensor t) -> ferry::python::as_numpy<ferry::managed_tensor> { return t; },
        arg("tensor"));
    m.def("same_line", [](line const& l) { return l; }, arg("line"));
    m.def("line_or", [](line const&) { return std::string{"line"}; }, arg("line"));
    m.def("line_or", [](reads<float>) { return std::string{"image"}; }, arg("image"));
    m.def("lent", []() -> image const& {
        static image const one = ramp(2, 2);
        return one;
    });

    // Options
    m.def(
        "copied",
        [](argument<ferry::managed_tensor, ferry::python::copies<ferry::copy_policy::always>> t) {
            return std::pair{address(t->view().data()), t->is_copied()};
        },
        arg("tensor"));
    m.def(
        "shared",
        [](argument<ferry::managed_tensor, ferry::python::copies<ferry::copy_policy::never>> t) {
            return address(t->view().data());
        },
        arg("tensor"));
    m.def(
        "rows_never",
        [](argument<rows, ferry::python::copies<ferry::copy_policy::never>> image) { return address(image->data()); },
        arg("image"));
    m.def(
        "near", [](argument<reads<float>, ferry::python::on<ferry::device_type::cpu>> image) { return sum(*image); },
        arg("image"));
    m.def(
        "near_strict",
        [](argument<reads<float>, ferry::python::on<ferry::device_type::cpu>> image) { return sum(*image); },
        arg("image").noconvert());
    using far = ferry::typed_view<float const, 2, ferry::access_from::device>;
    m.def(
        "on_stream", [](argument<far, ferry::python::on_stream<stream>> image) { return address(image->data()); },
        arg("image"));

    // Together with the type casters and classes of the binding library
    m.def(
        "ranks",
        [](std::vector<ferry::managed_tensor> const& all) {
            std::vector<int> out;
            for (auto const& t : all) out.push_back(t.rank());
            return out;
        },
        arg("tensors"));
    fw::class_<bound> bounds(m, "Bound");
    bounds.def(fw::init<>());
    read_only(bounds, "value", &bound::value);
    m.def("bound_value", [](bound const& b) { return b.value; }, arg("bound"));
    fw::class_<sums> totals(m, "Sums");
    totals.def(fw::init<>()).def("add", &sums::add, arg("image")).def_static("of", &sums::of, arg("image"));
    read_only(totals, "total", &sums::total);
    m.def(
        "total_of_object",
        [](fw::object const& image) {
            ferry::managed_tensor const tensor = ferry::python::from_python<ferry::managed_tensor>(image.ptr(), {});
            return sum(tensor.as<float const, 2>());
        },
        arg("image"));
    ferry::python::report_errors(m);
}

}  // namespace casters
