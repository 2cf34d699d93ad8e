// expect: put the extents in braces: \{data, \{rows, columns\}\}
// The second extent would be a stride.
#include <ferry/tensor/inplace_view.hpp>

ferry::inplace_view<2> view(float* data, int rows, int columns) {
#ifdef FERRY_COMPILE_FAIL
    return {data, rows, columns};
#else
    return {data, {rows, columns}};
#endif
}
