// expect: the elements of this array belong to another object.*copy_policy::always
// The tensor would outlive the vector, and a span owns nothing (D13).
#include <ferry/adapters/std.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <span>
#include <vector>

ferry::managed_tensor first(std::vector<float> v) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(ferry::shaped{std::span{v}, {2, 3}});
#else
    return ferry::to_dlpack(ferry::shaped{std::span{v}, {2, 3}}, {.copy = ferry::copy_policy::always});
#endif
}
