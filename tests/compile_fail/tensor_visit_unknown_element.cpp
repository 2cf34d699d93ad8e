// expect: this element type has no data type: specialise ferry::dtype_traits<T>
// also: try_visit
// One of the types has no data type.
#include <ferry/tensor/visit.hpp>

struct my_half {
    unsigned short bits;
};
#ifndef FERRY_COMPILE_FAIL
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
#endif
auto visited(ferry::tensor_view const& v) {
    return ferry::visit<float, my_half>(v, [](auto const& x) { return x.size(); });
}
