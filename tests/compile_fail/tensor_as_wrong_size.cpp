// expect: ferry::dtype_traits<T>::value must have as many bits as T
// Strides are in elements, so the size of the type must be that of its data type.
#include <ferry/tensor/as.hpp>

struct my_half {
#ifdef FERRY_COMPILE_FAIL
    float value;
#else
    unsigned short bits;
#endif
};
template <>
struct ferry::dtype_traits<my_half> {
    static constexpr data_type value{type_code::float_, 16};
};
auto view(ferry::tensor_view const& v) { return ferry::as<my_half, 2>(v); }
