// expect: the view would outlive the tensor: store the managed_tensor in a variable
// also: try_as
// The data is destroyed with its owner (R7).
#include <ferry/exchange/from_dlpack.hpp>

float first(DLManagedTensorVersioned* raw) {
#ifdef FERRY_COMPILE_FAIL
    auto const v = ferry::from_dlpack(raw).as<float const, 1>();
#else
    auto const t = ferry::from_dlpack(raw);
    auto const v = t.as<float const, 1>();
#endif
    return v(0);
}
// next case
// also: try_view
// The data is destroyed with its owner (R7).
#include <ferry/exchange/from_dlpack.hpp>

int rank(DLManagedTensorVersioned* raw) {
#ifdef FERRY_COMPILE_FAIL
    return ferry::from_dlpack(raw).view().rank();
#else
    auto const t = ferry::from_dlpack(raw);
    return t.view().rank();
#endif
}
