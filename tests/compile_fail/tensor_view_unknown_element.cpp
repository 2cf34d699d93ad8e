// expect: specialise ferry::dtype_traits<T>
// A view of elements needs their data type.
#include <ferry/tensor/view.hpp>

struct pixel {
    unsigned char r, g, b;
};
ferry::tensor_view view(pixel* data, ferry::shape_view shape) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::tensor_view{data, shape};
#else
    return {data, ferry::data_type{ferry::type_code::uint, 8, 3}, shape};
#endif
}
