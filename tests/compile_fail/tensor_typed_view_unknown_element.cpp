// expect: this element type has no data type: specialise ferry::dtype_traits<T>
// A function with a parameter of the type.
#include <ferry/tensor/typed_view.hpp>

struct my_half {
    unsigned short bits;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
auto length(ferry::typed_view<my_half, 2> v) { return v.extent(0); }
