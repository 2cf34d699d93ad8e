// expect: specialise ferry::dtype_traits<T>
// Only types with a data type can be used.
#include <ferry/base/dtype.hpp>

struct my_half {
    unsigned short bits;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
auto type = ferry::dtype_of<my_half>;
