// expect: this element type has no data type: specialise ferry::dtype_traits<T>
// also: try_as
// The same for a view.
#include <ferry/tensor/as.hpp>

struct my_half {
    unsigned short bits;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
auto view(ferry::tensor_view const& v) { return ferry::as<my_half>(v); }
