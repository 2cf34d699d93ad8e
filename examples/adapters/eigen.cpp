// Exports and imports Eigen matrices, row-major or column-major, without a copy.
#include <ferry/adapters/eigen.hpp>
#include <ferry/ferry.hpp>

#include <cstdint>
#include <utility>

#undef NDEBUG  // the program is a test
#include <cassert>

int main() {
    Eigen::MatrixXd m(2, 3);
    m << 1, 2, 3, 4, 5, 6;
    double const* const first = m.data();
    // [eigen]
    ferry::managed_tensor t = ferry::to_dlpack(ferry::shaped{std::move(m)});  // column-major: strides (1, 2)
    auto const again = ferry::to_eigen(t.as<double, 2>());                   // an Eigen::Map; t owns the elements
    double const sum = (2.0 * again).sum();
    // [/eigen]
    assert(t.view().data() == first && t.view().stride(0) == 1);
    assert(again.data() == first && again(1, 0) == 4 && sum == 42);
}
