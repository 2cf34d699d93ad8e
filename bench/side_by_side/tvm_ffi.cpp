#include "turns.hpp"

#include <tvm/ffi/container/tensor.h>

namespace {
struct lent_memory {
    float elements[2 * 3 * 4 * 5] = {};
    void AllocData(DLTensor* tensor) { tensor->data = elements; }
    void FreeData(DLTensor*) {}
};
}  // namespace

double bench::tvm_ffi_turns(long n) {
    namespace ffi = tvm::ffi;
    auto const tensor = ffi::Tensor::FromNDAlloc(lent_memory{}, ffi::Shape{2, 3, 4, 5}, {kDLFloat, 32, 1}, {kDLCPU, 0});
    return turns(n, [&] {
        auto* raw = tensor.ToDLPackVersioned();
        keep(raw);
        auto const back = ffi::Tensor::FromDLPackVersioned(raw);
        keep(back.data_ptr());
    });
}
