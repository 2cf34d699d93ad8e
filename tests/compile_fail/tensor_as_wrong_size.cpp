// expect: ferry::dtype_traits<T>::value must have as many bits as T
// Strides count elements, so a type must have the size of its data type.
#include <ferry/tensor/typed_view.hpp>

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
