// expect: the view would outlive its extents
// The extents are in the temporary, also if the elements are not.
#include <ferry/adapters/std.hpp>

#include <span>

ferry::tensor_view view(std::span<float> elements) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::shaped{elements}.ferry_view();
#else
    static ferry::shaped array{elements};
    return array.ferry_view();
#endif
}
