// expect: the struct would outlive the tensor
// The temporary calls the deleter at the end of the expression.
#include <ferry/exchange/from_dlpack.hpp>

int rank_of(DLManagedTensorVersioned* raw) {
#ifdef FERRY_COMPILE_FAIL
    auto const* const kept = ferry::from_dlpack(raw).get();
#else
    auto const owner = ferry::from_dlpack(raw);
    auto const* const kept = owner.get();
#endif
    return kept->dl_tensor.ndim;
}
