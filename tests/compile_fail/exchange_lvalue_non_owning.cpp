// expect: the elements of this array belong to another object, which the tensor may outlive
// also: try_to_dlpack
// A move does not help: the array does not own its elements.
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/typed_view.hpp>

auto exported(ferry::typed_view<float, 2> v) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::to_dlpack(v);
#else
    return ferry::to_dlpack(v, {.copy = ferry::copy_policy::always});
#endif
}
