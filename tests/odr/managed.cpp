// A program that includes only <ferry/tensor/managed.hpp>: everything that the header declares is defined.
#include <ferry/tensor/managed.hpp>

namespace {
int deleted = 0;
}

int main() {
    float value = 1;
    DLManagedTensorVersioned raw{};
    raw.version = {1, 0};
    raw.dl_tensor.data = &value;
    raw.dl_tensor.device = ferry::cpu.to_abi();
    raw.dl_tensor.dtype = ferry::dtype_of<float>.to_abi();
    raw.deleter = [](DLManagedTensorVersioned*) { ++deleted; };
    auto tensor = ferry::detail::trusted::adopt(&raw);
    DLManagedTensor* const legacy = tensor.release_legacy();
    bool const is_same = legacy->dl_tensor.data == &value && !tensor;
    legacy->deleter(legacy);
    return is_same && deleted == 1 && !tensor.try_release_legacy() ? 0 : 1;
}
