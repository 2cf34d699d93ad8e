// The tasks of ferry.cpp for which CCCL has functions. Compiled, not run.
#include <cuda/mdspan>

#include <cuda_bf16.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

struct image {
    std::vector<float> pixels{0, 1, 2, 3, 4, 5, 6, 7};
    std::int64_t extents[2] = {2, 4};
};

using owned = std::unique_ptr<DLManagedTensorVersioned, void (*)(DLManagedTensorVersioned*)>;

bool is(DLDataType type, DLDataTypeCode code, int bits) {
    return type.code == code && type.bits == bits && type.lanes == 1;
}

template <class View>
double sum(View const& view) {
    double total = 0;
    for (std::int64_t i = 0; i < view.extent(0); ++i) total += static_cast<double>(view(i));
    return total;
}

float import_and_read(DLManagedTensorVersioned* raw) {
    // [import]
    owned const tensor{raw, raw->deleter};
    if (raw->version.major != DLPACK_MAJOR_VERSION) throw std::runtime_error{"expected version 1"};
    return cuda::to_host_mdspan<float const, 2>(raw->dl_tensor)(1, 2);
    // [/import]
}

double import_unknown(DLManagedTensorVersioned* raw) {
    // [unknown]
    owned const tensor{raw, raw->deleter};
    if (raw->version.major != DLPACK_MAJOR_VERSION) throw std::runtime_error{"expected version 1"};
    if (is(raw->dl_tensor.dtype, kDLFloat, 32)) return sum(cuda::to_host_mdspan<float const, 1>(raw->dl_tensor));
    if (is(raw->dl_tensor.dtype, kDLFloat, 64)) return sum(cuda::to_host_mdspan<double const, 1>(raw->dl_tensor));
    return sum(cuda::to_host_mdspan<std::int32_t, 1>(raw->dl_tensor));
    // [/unknown]
}

template <class Consumer>
void export_borrowed(image& owner, Consumer consume) {
    // [borrowed]
    cuda::host_mdspan<float, cuda::std::dims<2>> const view{owner.pixels.data(), owner.extents[0], owner.extents[1]};
    auto const lent = cuda::to_dlpack_tensor(view);
    consume(lent.get());
    // [/borrowed]
}

float import_bfloat16(DLManagedTensorVersioned* raw) {
    // [bfloat]
    owned const tensor{raw, raw->deleter};
    if (raw->version.major != DLPACK_MAJOR_VERSION) throw std::runtime_error{"expected version 1"};
    return __bfloat162float(cuda::to_host_mdspan<__nv_bfloat16 const, 1>(raw->dl_tensor)(1));
    // [/bfloat]
}

void call() {
    image owner;
    export_borrowed(owner, [](DLTensor const&) {});
}

}  // namespace
