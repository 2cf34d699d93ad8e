// expect: a void\* has no data type: pass a ferry::data_type after the pointer
#include <ferry/tensor/view.hpp>

ferry::tensor_view view(void* data, ferry::shape_view shape) {
#ifdef FERRY_COMPILE_FAIL
    return {data, shape};
#else
    return {data, ferry::dtype_of<float>, shape};
#endif
}
