// expect: the view would outlive the tensor: store the managed_tensor in a variable
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
