#include <ferry/tensor/inplace_view.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using ferry::inplace_view;
using ferry::tensor_view;

TEST_CASE("R7: an inplace_view contains its extents and strides, and so does a copy of it") {
    float data[6] = {};
    auto const make = [&](std::size_t rows, int columns) { return inplace_view<2>{data, {rows, columns}, {1, 2}}; };
    auto v = make(2, 3);
    auto const copy = v;
    v = make(3, 2);
    CHECK(copy.shape().data() != v.shape().data());
    CHECK((copy.extent(0) == 2 && copy.extent(1) == 3 && copy.stride(1) == 2));
    CHECK((v.extent(0) == 3 && v.extent(1) == 2));
    tensor_view const& bound = make(1, 6);
    CHECK((bound.rank() == 2 && bound.extent(1) == 6));
}

TEST_CASE("R24: an inplace_view without strides is compact and row-major") {
    double const data[6] = {};
    inplace_view<8> const v{data, std::vector<int>{2, 3}};
    CHECK((v.strides().is_implicit() && v.stride(0) == 3));
    CHECK(v.is_read_only());
    CHECK(v.dtype() == ferry::dtype_of<double>);
    inplace_view<1> const scalar{data, {}};
    CHECK((scalar.rank() == 0 && scalar.size() == 1));
    ferry::device const gpu{ferry::device_type::cuda, 1};
    inplace_view<1> const raw{static_cast<void const*>(data), ferry::dtype_of<double>, {6}, {}, gpu};
    CHECK((raw.is_read_only() && raw.device().id == 1));
}
