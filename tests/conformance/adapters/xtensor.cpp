// The adapter for xtensor passes the kit.
#include "numbered.hpp"

#include <ferry/adapters/xtensor.hpp>

#include <cstdint>
#include <vector>

namespace {

template <class Array>
Array array(ferry::shape_view s) {
    std::vector<std::size_t> shape(s.begin(), s.end());
    Array a = Array::from_shape(shape);
    number(s,
           [&](auto* i, std::int64_t n) { a.element(i, i + s.rank()) = static_cast<typename Array::value_type>(n); });
    return a;
}

}  // namespace

TEST_CASE("R24: row-major and column-major xarrays pass") {
    keeps<xt::xarray<float>>(array<xt::xarray<float>>, of_owners);
    keeps<xt::xarray<double, xt::layout_type::column_major>>(array<xt::xarray<double, xt::layout_type::column_major>>,
                                                             of_owners);
}

TEST_CASE("R24: xtensor containers pass") {
    using matrix = xt::xtensor<std::int32_t, 2>;
    keeps<matrix>([](ferry::shape_view s) { return only(s.rank() == 2), array<matrix>(s); }, of_owners);
}

TEST_CASE("R24: to_xtensor makes an expression of a foreign tensor, for any strides") {
    float const values[6] = {1, 2, 3, 4, 5, 6};
    std::int64_t const shape[2] = {3, 2}, transposed[2] = {1, 3};
    auto const e = ferry::to_xtensor(ferry::as<float const, 2>(ferry::tensor_view{values, shape, transposed}));
    CHECK(e(2, 1) == 6);
    CHECK(e.shape()[0] == 3);
}
