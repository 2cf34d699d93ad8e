// expect: the view refers to a list of std::int64_t, and these extents have another type: use ferry::inplace_view<N>
#include <ferry/tensor/inplace_view.hpp>

#include <span>

struct array {
    float* data;
    std::span<int const> extents;
};
#ifdef FERRY_COMPILE_FAIL
ferry::tensor_view view(array& a) { return {a.data, a.extents}; }
#else
ferry::inplace_view<2> view(array& a) { return {a.data, a.extents}; }
#endif
