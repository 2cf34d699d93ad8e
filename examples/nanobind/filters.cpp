// Image filters for the arrays of every Python library that supports DLPack.
#include <ferry/python/nanobind.hpp>

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// [result]
// The result type of the functions: a custom array, which the adapter below exports without a copy.
struct image {
    std::vector<float> pixels;
    std::array<std::int64_t, 2> extents;
};

}  // namespace

template <>
struct ferry::array_traits<image> {
    static tensor_view view(image& i) { return {i.pixels.data(), i.extents}; }
};
// [/result]

namespace {

// [read]
// T const: read access. The array is shared, with any strides, and released when the call ends.
float mean(ferry::typed_view<float const, 2> in) {
    float sum = 0;
    for (std::int64_t y = 0; y < in.extent(0); ++y)
        for (std::int64_t x = 0; x < in.extent(1); ++x) sum += in(y, x);
    return sum / static_cast<float>(in.size());
}
// [/read]

// [write]
// T: write access to the memory of the caller. Read-only arrays are refused.
void brighten(ferry::typed_view<float, 2> pixels, float by) {
    for (std::int64_t y = 0; y < pixels.extent(0); ++y)
        for (std::int64_t x = 0; x < pixels.extent(1); ++x) pixels(y, x) += by;
}
// [/write]

// [overload]
// Overloads by element type: no array is converted.
template <class T>
std::vector<int> histogram(ferry::typed_view<T const, 2> in, T most) {
    std::vector<int> bins(4);
    for (std::int64_t y = 0; y < in.extent(0); ++y)
        for (std::int64_t x = 0; x < in.extent(1); ++x)
            ++bins[static_cast<std::size_t>(std::clamp(static_cast<int>(4 * in(y, x) / most), 0, 3))];
    return bins;
}
// [/overload]

// [optional]
// std::optional accepts None. The result is a NumPy array, which owns the pixels.
ferry::python::as_numpy<image> blur(ferry::typed_view<float const, 2> in,
                                    std::optional<ferry::typed_view<float const, 2>> mask) {
    auto const height = in.extent(0), width = in.extent(1);
    image out{std::vector<float>(static_cast<std::size_t>(in.size())), {height, width}};
    for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
            float sum = 0, weight = 0;
            for (auto v = std::max<std::int64_t>(y - 1, 0); v < std::min(y + 2, height); ++v)
                for (auto u = std::max<std::int64_t>(x - 1, 0); u < std::min(x + 2, width); ++u) {
                    auto const w = mask ? mask->at(v, u) : 1.0f;
                    sum += w * in(v, u);
                    weight += w;
                }
            out.pixels[static_cast<std::size_t>(y * width + x)] = weight > 0 ? sum / weight : 0;
        }
    return out;
}
// [/optional]

// [like]
// The result is an array of the library of the argument: a PyTorch tensor for a PyTorch tensor.
ferry::python::result<image> invert(ferry::python::argument<ferry::typed_view<float const, 2>> in) {
    image out{{}, {in->extent(0), in->extent(1)}};
    for (std::int64_t y = 0; y < in->extent(0); ++y)
        for (std::int64_t x = 0; x < in->extent(1); ++x) out.pixels.push_back(1 - (*in)(y, x));
    return {std::move(out), in.object()};
}
// [/like]

// [keep]
// The function owns a managed_tensor argument: it can outlive the call and be returned unchanged.
class recorder {
   public:
    recorder() = default;
    recorder(recorder&&) = default;  // tensors cannot be copied implicitly

    void add(ferry::managed_tensor frame) { frames_.push_back(std::move(frame)); }
    std::optional<ferry::managed_tensor> pop() {
        if (frames_.empty()) return {};
        auto last = std::move(frames_.back());
        frames_.pop_back();
        return last;
    }

   private:
    std::vector<ferry::managed_tensor> frames_;
};
// [/keep]

// [options]
// An argument that must not be copied: if a copy is required, the call fails.
using rows = ferry::typed_view<float const, 2, ferry::access_from::host, ferry::layout::contiguous>;
float sum_rows(ferry::python::argument<rows, ferry::python::copies<ferry::copy_policy::never>> in) {
    float sum = 0;
    for (float const pixel : in->span()) sum += pixel;
    return sum;
}
// [/options]

}  // namespace

// [module]
NB_MODULE(filters, m) {
    m.def("mean", &mean, "image"_a);
    m.def("brighten", &brighten, "image"_a, "by"_a);
    m.def("histogram", [](ferry::typed_view<float const, 2> in) { return histogram(in, 1.0f); }, "image"_a);
    m.def("histogram", [](ferry::typed_view<std::uint8_t const, 2> in) { return histogram<std::uint8_t>(in, 255); }, "image"_a);
    m.def("blur", &blur, "image"_a, "mask"_a = nb::none());
    m.def("invert", &invert, "image"_a);
    m.def("sum_rows", &sum_rows, "image"_a);
    nb::class_<recorder>(m, "Recorder").def(nb::init<>()).def("add", &recorder::add, "frame"_a).def("pop", &recorder::pop);
    ferry::python::report_errors(m);
}
// [/module]
