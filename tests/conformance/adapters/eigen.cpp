// The adapter for Eigen passes the kit.
#include "numbered.hpp"

#include <ferry/adapters/eigen.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <support/fails.hpp>

#include <cstdint>
#include <deque>
#include <vector>

namespace {

using column_major = Eigen::MatrixXf;
using row_major = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using fixed = Eigen::Matrix<std::int32_t, 2, 3>;
using vector = Eigen::VectorXf;

template <class Matrix>
ferry::shaped<Matrix> matrix(ferry::shape_view s) {
    only(s.rank() == 2 && (Matrix::SizeAtCompileTime == Eigen::Dynamic || s[0] * s[1] == Matrix::SizeAtCompileTime));
    Matrix m(s[0], s[1]);
    number(s, [&](auto* i, std::int64_t n) { m(i[0], i[1]) = static_cast<typename Matrix::Scalar>(n); });
    return ferry::shaped<Matrix>{std::move(m)};
}

template <int Order>
ferry::shaped<Eigen::Tensor<float, 3, Order>> tensor(ferry::shape_view s) {
    only(s.rank() == 3);
    Eigen::Tensor<float, 3, Order> t(s[0], s[1], s[2]);
    number(s, [&](auto* i, std::int64_t n) { t(i[0], i[1], i[2]) = static_cast<float>(n); });
    return ferry::shaped{std::move(t)};
}

}  // namespace

TEST_CASE("R24: row-major and column-major matrices pass") {
    keeps<ferry::shaped<column_major>>(matrix<column_major>, of_owners);
    keeps<ferry::shaped<row_major>>(matrix<row_major>, of_owners);
}

TEST_CASE("R7: a matrix of fixed size, which contains its elements, passes") {
    keeps<ferry::shaped<fixed>>(matrix<fixed>, of_owners);
}

TEST_CASE("R24: vectors have one dimension") {
    ferry::shaped const v{vector{{1, 2, 3}}};
    auto const t = ferry::view_of(v);
    CHECK(t.rank() == 1);
    CHECK(t.extent(0) == 3);
    CHECK(t.is_read_only());
}

TEST_CASE("R24: maps with strides pass") {
    using map = Eigen::Map<column_major, Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
    std::deque<std::vector<float>> alive;
    auto const make = [&](ferry::shape_view s) {
        only(s.rank() == 2);
        auto& memory = alive.emplace_back(static_cast<std::size_t>(s[0] * s[1] * 6 + 8));
        map m(memory.data(), s[0], s[1], {s[0] * 3 + 1, 2});
        number(s, [&](auto* i, std::int64_t n) { m(i[0], i[1]) = static_cast<float>(n); });
        return ferry::shaped{m};
    };
    keeps<ferry::shaped<map>>(make, of_handles);
    ferry::shaped of_const{Eigen::Map<vector const>{nullptr, 0}};
    CHECK(ferry::view_of(of_const).is_read_only());
}

TEST_CASE("R24: row-major and column-major tensors pass") {
    keeps<ferry::shaped<Eigen::Tensor<float, 3>>>(tensor<Eigen::ColMajor>, of_owners);
    keeps<ferry::shaped<Eigen::Tensor<float, 3, Eigen::RowMajor>>>(tensor<Eigen::RowMajor>, of_owners);
}

TEST_CASE("R28: to_eigen makes a map of a foreign tensor and rejects negative strides") {
    float const values[6] = {1, 2, 3, 4, 5, 6};
    std::int64_t const shape[2] = {3, 2}, transposed[2] = {1, 3}, backwards[2] = {-2, 1};
    auto const m = ferry::to_eigen(ferry::as<float const, 2>(ferry::tensor_view{values, shape, transposed}));
    CHECK(m(2, 1) == 6);
    CHECK(m.data() == values);
    auto const v = ferry::as<float const, 2>(ferry::tensor_view{values + 4, shape, backwards});
    support::fails(ferry::errc::strides, [&] { static_cast<void>(ferry::to_eigen(v)); }, {"R28", "copy"});
}
