// expect: a temporary list of extents is destroyed before the view: store it in a variable
// {0, 3} would be a null pointer and a rank.
#include <ferry/tensor/view.hpp>

ferry::tensor_view view(float* data, std::int64_t const (&extents)[2]) {
#ifdef FERRY_COMPILE_FAIL
    return {data, {0, 3}};
#else
    return {data, extents};
#endif
}
