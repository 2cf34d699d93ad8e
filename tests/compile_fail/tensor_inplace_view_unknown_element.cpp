// expect: specialise ferry::dtype_traits<T>
#include <ferry/tensor/inplace_view.hpp>

struct pixel {
    unsigned char r, g, b;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<pixel> {
    static constexpr data_type value{type_code::uint, 8, 3};
};
#endif
ferry::inplace_view<2> view(pixel* data) { return {data, {2, 3}}; }
