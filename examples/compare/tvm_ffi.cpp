// The twelve tasks of ferry.cpp with the C++ API of tvm-ffi. Compiled, not run.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace {

namespace ffi = tvm::ffi;

struct image {
    std::vector<float> pixels{0, 1, 2, 3, 4, 5, 6, 7};
    std::int64_t extents[2] = {2, 4};
};

// An allocator of FromNDAlloc that keeps an image alive.
struct held_image {
    std::shared_ptr<image> owner;
    void AllocData(DLTensor* tensor) { tensor->data = owner->pixels.data(); }
    void FreeData(DLTensor*) { owner.reset(); }
};

constexpr DLDevice host{kDLCPU, 0};
constexpr DLDataType float32{kDLFloat, 32, 1};

template <class T>
double sum(T const* first, std::int64_t count, std::int64_t stride) {
    double total = 0;
    for (std::int64_t i = 0; i < count; ++i) total += static_cast<double>(first[i * stride]);
    return total;
}

bool is(DLDataType type, DLDataTypeCode code, int bits) {
    return type.code == code && type.bits == bits && type.lanes == 1;
}

float import_and_read(DLManagedTensorVersioned* raw) {
    // [import]
    auto const tensor = ffi::Tensor::FromDLPackVersioned(raw);
    TVM_FFI_CHECK(tensor.device().device_type == kDLCPU, ValueError) << "expected host memory";
    TVM_FFI_CHECK(tensor.ndim() == 2 && is(tensor.dtype(), kDLFloat, 32), TypeError) << "expected float32, rank 2";
    auto const* const first = static_cast<float const*>(tensor.data_ptr());
    return first[tensor.stride(0) + 2 * tensor.stride(1)];
    // [/import]
}

double import_unknown(DLManagedTensorVersioned* raw) {
    // [unknown]
    auto const tensor = ffi::Tensor::FromDLPackVersioned(raw);
    TVM_FFI_CHECK(tensor.device().device_type == kDLCPU, ValueError) << "expected host memory";
    TVM_FFI_CHECK(tensor.ndim() == 1, ValueError) << "expected rank 1";
    auto const count = tensor.size(0), stride = tensor.stride(0);
    if (is(tensor.dtype(), kDLFloat, 32)) return sum(static_cast<float const*>(tensor.data_ptr()), count, stride);
    if (is(tensor.dtype(), kDLFloat, 64)) return sum(static_cast<double const*>(tensor.data_ptr()), count, stride);
    TVM_FFI_CHECK(is(tensor.dtype(), kDLInt, 32), TypeError) << "expected float32, float64 or int32";
    return sum(static_cast<std::int32_t const*>(tensor.data_ptr()), count, stride);
    // [/unknown]
}

DLManagedTensorVersioned* export_owned(image&& owner) {
    // [owned]
    held_image const held{std::make_shared<image>(std::move(owner))};
    return ffi::Tensor::FromNDAlloc(held, {held.owner->extents, 2}, float32, host).ToDLPackVersioned();
    // [/owned]
}

DLManagedTensorVersioned* export_shared(std::shared_ptr<image> owner) {
    // [shared]
    return ffi::Tensor::FromNDAlloc(held_image{owner}, {owner->extents, 2}, float32, host).ToDLPackVersioned();
    // [/shared]
}

template <class Consumer>
void export_borrowed(image& owner, Consumer consume) {
    // [borrowed]
    std::int64_t strides[] = {owner.extents[1], 1};
    DLTensor const lent{owner.pixels.data(), host, 2, float32, owner.extents, strides, 0};
    consume(lent);
    // [/borrowed]
}

std::pair<DLManagedTensorVersioned*, DLManagedTensorVersioned*> export_with_policies(image&& owner) {
    // [copies]
    held_image const held{std::make_shared<image>(std::move(owner))}, other{std::make_shared<image>(*held.owner)};
    auto* const copied = ffi::Tensor::FromNDAlloc(other, {other.owner->extents, 2}, float32, host).ToDLPackVersioned();
    copied->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    return {copied, ffi::Tensor::FromNDAlloc(held, {held.owner->extents, 2}, float32, host).ToDLPackVersioned()};
    // [/copies]
}

DLManagedTensorVersioned* export_read_only(std::shared_ptr<image const> owner) {
    // [read-only]
    auto* const raw = ffi::Tensor::FromNDAlloc(held_image{std::const_pointer_cast<image>(owner)}, {owner->extents, 2},
                                               float32, host)
                          .ToDLPackVersioned();
    raw->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    return raw;
    // [/read-only]
}

DLManagedTensor* export_legacy(image&& owner) {
    // [legacy]
    held_image const held{std::make_shared<image>(std::move(owner))};
    return ffi::Tensor::FromNDAlloc(held, {held.owner->extents, 2}, float32, host).ToDLPack();
    // [/legacy]
}

float import_bfloat16(DLManagedTensorVersioned* raw) {
    // [bfloat]
    auto const tensor = ffi::Tensor::FromDLPackVersioned(raw);
    TVM_FFI_CHECK(tensor.device().device_type == kDLCPU, ValueError) << "expected host memory";
    TVM_FFI_CHECK(tensor.ndim() == 1 && is(tensor.dtype(), kDLBfloat, 16), TypeError) << "expected bfloat16, rank 1";
    auto const bits = std::uint32_t{static_cast<std::uint16_t const*>(tensor.data_ptr())[tensor.stride(0)]} << 16;
    return __builtin_bit_cast(float, bits);
    // [/bfloat]
}

DLManagedTensorVersioned* export_every_second(std::shared_ptr<image> owner) {
    // [every-second]
    std::int64_t const shape[] = {2, 2}, strides[] = {4, 2};
    auto const whole = ffi::Tensor::FromNDAlloc(held_image{owner}, {owner->extents, 2}, float32, host);
    return whole.as_strided({shape, 2}, {strides, 2}).ToDLPackVersioned();
    // [/every-second]
}

}  // namespace
