// expect: the view refers to a list of std::int64_t, and these extents have another type: use ferry::inplace_view<N>
#include <ferry/tensor/inplace_view.hpp>

struct mdspan_extents {  // as std::extents, of C++23
    using rank_type = std::size_t;
    static constexpr std::size_t rank() { return 2; }
    std::size_t extent(std::size_t) const { return 3; }
};
#ifdef FERRY_COMPILE_FAIL
ferry::tensor_view view(float* data, mdspan_extents const& extents) { return {data, extents}; }
#else
ferry::inplace_view<2> view(float* data, mdspan_extents const& extents) { return {data, extents}; }
#endif
