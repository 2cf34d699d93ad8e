// The twelve tasks of ferry.cpp with the C++ API of PyTorch. Compiled, not run.
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace {

struct image {
    std::vector<float> pixels{0, 1, 2, 3, 4, 5, 6, 7};
    std::int64_t extents[2] = {2, 4};
};

template <class View>
double sum(View const& view) {
    double total = 0;
    for (std::int64_t i = 0; i < view.size(0); ++i) total += static_cast<double>(view[i]);
    return total;
}

float import_and_read(DLManagedTensorVersioned* raw) {
    // [import]
    auto const tensor = at::fromDLPackVersioned(raw);
    TORCH_CHECK(tensor.device().is_cpu(), "expected host memory");
    return tensor.accessor<float const, 2>()[1][2];
    // [/import]
}

double import_unknown(DLManagedTensorVersioned* raw) {
    // [unknown]
    auto const tensor = at::fromDLPackVersioned(raw);
    TORCH_CHECK(tensor.device().is_cpu(), "expected host memory");
    if (tensor.scalar_type() == at::kFloat) return sum(tensor.accessor<float const, 1>());
    if (tensor.scalar_type() == at::kDouble) return sum(tensor.accessor<double const, 1>());
    return sum(tensor.accessor<std::int32_t const, 1>());
    // [/unknown]
}

DLManagedTensorVersioned* export_owned(image&& owner) {
    // [owned]
    auto const held = std::make_shared<image>(std::move(owner));
    return at::toDLPackVersioned(at::from_blob(held->pixels.data(), held->extents, [held](void*) {}));
    // [/owned]
}

DLManagedTensorVersioned* export_shared(std::shared_ptr<image> owner) {
    // [shared]
    return at::toDLPackVersioned(at::from_blob(owner->pixels.data(), owner->extents, [owner](void*) {}));
    // [/shared]
}

template <class Consumer>
void export_borrowed(image& owner, Consumer consume) {
    // [borrowed]
    auto const tensor = at::from_blob(owner.pixels.data(), owner.extents);
    DLTensor lent;
    at::toDLPackNonOwning(tensor, &lent);
    consume(lent);
    // [/borrowed]
}

std::pair<DLManagedTensorVersioned*, DLManagedTensorVersioned*> export_with_policies(image&& owner) {
    // [copies]
    auto const held = std::make_shared<image>(std::move(owner));
    auto const tensor = at::from_blob(held->pixels.data(), held->extents, [held](void*) {});
    auto* const copied = at::toDLPackVersioned(at::maybeCopyTensor(tensor, std::nullopt, true));
    copied->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    return {copied, at::toDLPackVersioned(at::maybeCopyTensor(tensor, std::nullopt, false))};
    // [/copies]
}

DLManagedTensorVersioned* export_read_only(std::shared_ptr<image const> owner) {
    // [read-only]
    auto* const raw = at::toDLPackVersioned(
        at::from_blob(const_cast<float*>(owner->pixels.data()), owner->extents, [owner](void*) {}));
    raw->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    return raw;
    // [/read-only]
}

DLManagedTensor* export_legacy(image&& owner) {
    // [legacy]
    auto const held = std::make_shared<image>(std::move(owner));
    return at::toDLPack(at::from_blob(held->pixels.data(), held->extents, [held](void*) {}));
    // [/legacy]
}

float import_bfloat16(DLManagedTensorVersioned* raw) {
    // [bfloat]
    auto const tensor = at::fromDLPackVersioned(raw);
    TORCH_CHECK(tensor.device().is_cpu(), "expected host memory");
    return static_cast<float>(tensor.accessor<at::BFloat16 const, 1>()[1]);
    // [/bfloat]
}

DLManagedTensorVersioned* export_every_second(std::shared_ptr<image> owner) {
    // [every-second]
    return at::toDLPackVersioned(at::from_blob(owner->pixels.data(), owner->extents, [owner](void*) {})
                                     .slice(1, std::nullopt, std::nullopt, 2));
    // [/every-second]
}

DLManagedTensorVersioned* export_ordered(at::Tensor const& tensor, c10::Stream producer, c10::Stream consumer) {
    // [stream]
    c10::Event ready{producer.device_type()};
    ready.record(producer);
    ready.block(consumer);
    return at::toDLPackVersioned(tensor);
    // [/stream]
}

float copy_to_host(DLManagedTensorVersioned* raw, c10::Stream producer) {
    // [host]
    producer.synchronize();
    auto const tensor = at::fromDLPackVersioned(raw).cpu();
    return tensor.accessor<float const, 2>()[1][2];
    // [/host]
}

}  // namespace
