// expect: this element type has no data type: specialise ferry::dtype_traits<T>
// also: try_as
// A typed view needs a type that has a data type.
#include <ferry/tensor/managed.hpp>

struct my_half {
    unsigned short bits;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
auto view(ferry::managed_tensor const& t) { return t.as<my_half const, 2>(); }
