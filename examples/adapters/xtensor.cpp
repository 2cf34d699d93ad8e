// Exports xtensor arrays, and reads other tensors as xtensor expressions.
#include <ferry/adapters/xtensor.hpp>
#include <ferry/ferry.hpp>

#include <utility>

#undef NDEBUG  // the program is a test
#include <cassert>

int main() {
    xt::xarray<double> a{{1, 2, 3}, {4, 5, 6}};
    // [xtensor]
    ferry::managed_tensor t = ferry::to_dlpack(std::move(a));       // the array is moved in
    auto const again = ferry::to_xtensor(t.as<double const, 2>());  // an expression; t owns the elements
    // [/xtensor]
    assert(again(1, 0) == 4 && again.shape()[1] == 3);
}
