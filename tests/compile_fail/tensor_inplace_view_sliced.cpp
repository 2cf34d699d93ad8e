// expect: the temporary inplace_view contains the extents: bind it to a tensor_view const&
// The view would refer to the extents of a temporary (R7).
#include <ferry/tensor/inplace_view.hpp>

ferry::inplace_view<2> view(float* data);
auto rank(float* data) {
#ifdef FERRY_COMPILE_FAIL
    ferry::tensor_view const v = view(data);
#else
    ferry::tensor_view const& v = view(data);
#endif
    return v.rank();
}
