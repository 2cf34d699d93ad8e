// expect: address of stack memory
// The extents would be destroyed on return (R7). Clang only.
#include <ferry/tensor/view.hpp>

#include <array>

#if defined(__clang__)
#pragma clang diagnostic error "-Wreturn-stack-address"
#elif defined(FERRY_COMPILE_FAIL)
#error "address of stack memory: GCC does not warn"
#endif

ferry::tensor_view view(float* data, [[maybe_unused]] std::array<std::int64_t, 2> const& extents) {
#ifdef FERRY_COMPILE_FAIL
    std::array<std::int64_t, 2> const local{2, 3};
    return {data, local};
#else
    return {data, extents};
#endif
}
