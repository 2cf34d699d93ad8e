// expect: the view refers to a list of extents, and this list is temporary: use ferry::inplace_view<N>, which stores the list
// {0, 3} would be a null pointer and a rank.
#include <ferry/tensor/view.hpp>

ferry::tensor_view view(float* data, std::int64_t const (&extents)[2]) {
#ifdef FERRY_COMPILE_FAIL
    return {data, {0, 3}};
#else
    return {data, extents};
#endif
}
