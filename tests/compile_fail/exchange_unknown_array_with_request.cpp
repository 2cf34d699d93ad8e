// expect: unknown array type: specialise ferry::array_traits<T>
// also: try_to_dlpack
#include <ferry/exchange/to_dlpack.hpp>

struct grid {
    float values[6];
    std::int64_t extents[2];
#ifndef FERRY_COMPILE_FAIL
    ferry::tensor_view ferry_view() { return {values, extents}; }
    ferry::tensor_view ferry_view() const { return {values, extents}; }
#endif
};

auto copy(grid const& g) { return ferry::to_dlpack(g, {.copy = ferry::copy_policy::always}); }
