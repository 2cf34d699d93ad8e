// From hand-written DLPack code to ferry: the same export and import, before and after.
#include <ferry/ferry.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

struct image {
    std::vector<float> pixels;
    std::array<std::int64_t, 2> extents;
};

// [export-before]
struct export_state {
    image owner;
    std::int64_t shape[2], strides[2];
    DLManagedTensor managed;
};

DLManagedTensor* export_by_hand(image i) {
    auto state = std::make_unique<export_state>(export_state{std::move(i), {}, {}, {}});
    state->shape[0] = state->owner.extents[0];
    state->shape[1] = state->owner.extents[1];
    state->strides[0] = state->shape[1];
    state->strides[1] = 1;
    state->managed.dl_tensor = {state->owner.pixels.data(),
                                {kDLCPU, 0},
                                2,
                                {kDLFloat, 32, 1},
                                state->shape,
                                state->strides,
                                0};
    state->managed.manager_ctx = state.get();
    state->managed.deleter = [](DLManagedTensor* self) {
        delete static_cast<export_state*>(self->manager_ctx);
    };
    return &state.release()->managed;
}
// [/export-before]

// [import-before]
float sum_by_hand(DLManagedTensor* m) {
    DLTensor const& t = m->dl_tensor;
    if (t.device.device_type != kDLCPU || t.ndim != 2 || t.dtype.code != kDLFloat ||
        t.dtype.bits != 32) {
        m->deleter(m);
        throw std::runtime_error{"unsupported tensor"};
    }
    auto const* const first =
        reinterpret_cast<float const*>(static_cast<char const*>(t.data) + t.byte_offset);
    float sum = 0;
    for (std::int64_t y = 0; y < t.shape[0]; ++y)
        for (std::int64_t x = 0; x < t.shape[1]; ++x)
            sum += first[t.strides != nullptr ? y * t.strides[0] + x * t.strides[1]
                                              : y * t.shape[1] + x];
    m->deleter(m);
    return sum;
}
// [/import-before]

}  // namespace

// [export-after]
template <> struct ferry::array_traits<image> {
    static tensor_view view(image& i) { return {i.pixels.data(), i.extents}; }
    static tensor_view view(image const& i) { return {i.pixels.data(), i.extents}; }
};
// [/export-after]

namespace {

// [import-after]
float sum(ferry::managed_tensor const& tensor) {
    auto const pixels = tensor.as<float const, 2>();
    float sum = 0;
    for (std::int64_t y = 0; y < pixels.extent(0); ++y)
        for (std::int64_t x = 0; x < pixels.extent(1); ++x) sum += pixels(y, x);
    return sum;
}
// [/import-after]

}  // namespace

int main() {
    auto const make = [] { return image{{1, 2, 3, 4, 5, 6}, {2, 3}}; };

    // [versioned]
    DLManagedTensorVersioned* const raw =
        ferry::to_dlpack(make()).release();  // for consumers of version 1
    DLManagedTensor* const legacy =
        ferry::to_dlpack(make()).release_legacy();  // for other consumers
    // [/versioned]

    // [both]
    float const new_way =
        sum(ferry::from_dlpack(raw));  // either struct; other code does not change
    float const old_way = sum(ferry::from_dlpack(legacy));  // no flags: treated as read-only
    // [/both]

    // The producer and the consumer can be changed in either order.
    float const half_way = sum(ferry::from_dlpack(export_by_hand(make()))),
                other_half = sum_by_hand(ferry::to_dlpack(make()).release_legacy());
    std::printf("%g %g %g %g\n", static_cast<double>(new_way), static_cast<double>(old_way),
                static_cast<double>(half_way), static_cast<double>(other_half));
    return new_way == 21 && old_way == 21 && half_way == 21 && other_half == 21 ? 0 : 1;
}
