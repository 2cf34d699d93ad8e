// The tasks of ferry.cpp for which nanobind has functions. Arguments and results are Python objects. Compiled, not run.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace {

struct image {
    std::vector<float> pixels{0, 1, 2, 3, 4, 5, 6, 7};
    std::size_t extents[2] = {2, 4};
};

struct bfloat16 {
    std::uint16_t bits;
    explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

template <class View>
double sum(View const& view) {
    double total = 0;
    for (std::size_t i = 0; i < view.shape(0); ++i) total += static_cast<double>(view(i));
    return total;
}

}  // namespace

template <>
struct nb::detail::dtype_traits<bfloat16> {
    static constexpr dlpack::dtype value{static_cast<std::uint8_t>(dlpack::dtype_code::Bfloat), 16, 1};
    static constexpr auto name = const_name("bfloat16");
};

namespace {

float import_and_read(nb::ndarray<float const, nb::ndim<2>, nb::device::cpu> const& values) {
    // [import]
    return values(1, 2);
    // [/import]
}

double import_unknown(nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu> const& tensor) {
    // [unknown]
    if (tensor.dtype() == nb::dtype<float>()) return sum(tensor.view<float const, nb::ndim<1>>());
    if (tensor.dtype() == nb::dtype<double>()) return sum(tensor.view<double const, nb::ndim<1>>());
    if (tensor.dtype() == nb::dtype<std::int32_t>()) return sum(tensor.view<std::int32_t const, nb::ndim<1>>());
    throw nb::type_error("expected float32, float64 or int32");
    // [/unknown]
}

nb::ndarray<float> export_owned(image&& owner) {
    // [owned]
    auto* const held = new image{std::move(owner)};
    nb::capsule const keep{held, [](void* p) noexcept { delete static_cast<image*>(p); }};
    return {held->pixels.data(), 2, held->extents, keep};
    // [/owned]
}

nb::ndarray<float> export_shared(std::shared_ptr<image> const& owner) {
    // [shared]
    auto* const held = new std::shared_ptr{owner};
    nb::capsule const keep{held, [](void* p) noexcept { delete static_cast<std::shared_ptr<image>*>(p); }};
    return {owner->pixels.data(), 2, owner->extents, keep};
    // [/shared]
}

template <class Consumer>
void export_borrowed(image& owner, Consumer consume) {
    // [borrowed]
    nb::ndarray<float> lent{owner.pixels.data(), 2, owner.extents};
    consume(lent.cast(nb::rv_policy::reference));
    // [/borrowed]
}

nb::ndarray<float const> export_read_only(std::shared_ptr<image const> const& owner) {
    // [read-only]
    auto* const held = new std::shared_ptr{owner};
    nb::capsule const keep{held, [](void* p) noexcept { delete static_cast<std::shared_ptr<image const>*>(p); }};
    return {owner->pixels.data(), 2, owner->extents, keep};
    // [/read-only]
}

float import_bfloat16(nb::ndarray<bfloat16 const, nb::ndim<1>, nb::device::cpu> const& values) {
    // [bfloat]
    return static_cast<float>(values(1));
    // [/bfloat]
}

nb::ndarray<float> export_every_second(std::shared_ptr<image> const& owner) {
    // [every-second]
    auto* const held = new std::shared_ptr{owner};
    nb::capsule const keep{held, [](void* p) noexcept { delete static_cast<std::shared_ptr<image>*>(p); }};
    return {owner->pixels.data(), {2, 2}, keep, {4, 2}};
    // [/every-second]
}

}  // namespace
