// ferry: a tensor of another producer, which counts the calls to its deleter.
#pragma once

#include <ferry/abi/dlpack.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/conformance/detail/box.hpp>
#include <ferry/conformance/detail/numbers.hpp>
#include <ferry/conformance/detail/samples.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace FERRY_NAMESPACE::conformance::detail {

/// Memory layout of a foreign tensor.
enum class element_layout : std::uint8_t { compact, null_strides, column_major, backwards, broadcast };

/// A tensor that has no elements, or whose type and shape `fits_sample` accepts. Must outlive every array that imports
/// it.
class foreign {
   public:
    foreign(data_type type, shape_view shape, element_layout how = element_layout::compact,
            std::int64_t byte_offset = 0) {
        auto& t = raw_.dl_tensor;
        int const rank = shape.rank();
        std::int64_t step = 1, first = 0;
        for (int k = 0; k < rank; ++k) {
            int const i = how == element_layout::column_major ? k : rank - 1 - k;
            extents_[i] = shape[i];
            strides_[i] = how == element_layout::backwards             ? -step
                          : how == element_layout::broadcast && i == 0 ? 0
                                                                       : step;
            if (how == element_layout::backwards && shape[i] > 0) first += (shape[i] - 1) * step;
            if (shape[i] > 0) step *= shape[i];
        }
        raw_.version = {1, how == element_layout::null_strides ? 1u : 3u};  // R24: strides have been required since 1.2
        raw_.manager_ctx = this;
        raw_.deleter = [](DLManagedTensorVersioned* self) { ++static_cast<foreign*>(self->manager_ctx)->releases_; };
        first_ = first * bits_per_element(type) / 8;
        t.data = bytes_ + first_;
        t.device = cpu.to_abi();
        t.ndim = rank;
        t.dtype = type.to_abi();
        t.shape = extents_;
        t.strides = how == element_layout::null_strides ? nullptr : strides_;
        t.byte_offset = static_cast<std::uint64_t>(byte_offset);
        period_ = how == element_layout::broadcast && rank > 0 && shape[0] > 0 ? tensor().size() / shape[0] : INT64_MAX;
        std::memset(bytes_, poison, sizeof bytes_);
        fill(bytes_);
    }
    foreign(foreign const&) = delete;
    foreign& operator=(foreign const&) = delete;

    /// Writes the elements to `bytes`, a buffer of size() bytes with the layout of the tensor's memory.
    void fill(std::byte* bytes) {
        tensor_view const v = tensor();
        if (!is_readable(v.dtype())) return;
        auto* const first = bytes + first_;
        for_each_element(v, [&](std::int64_t ordinal, std::int64_t offset) {
            write_number(v.dtype(), first + offset, ordinal % period_ + 1);
            return true;
        });
    }
    foreign& with_flags(flags bits) noexcept {
        raw_.flags = static_cast<std::uint64_t>(bits);
        return *this;
    }
    foreign& on(device dev, void* data) noexcept {
        raw_.dl_tensor.device = dev.to_abi();
        raw_.dl_tensor.data = data;
        return *this;
    }

    [[nodiscard]] DLManagedTensorVersioned* raw() noexcept { return &raw_; }
    [[nodiscard]] tensor_view tensor() const noexcept { return {raw_.dl_tensor, flags{raw_.flags}}; }
    [[nodiscard]] int releases() const noexcept { return releases_; }
    [[nodiscard]] std::int64_t period() const noexcept { return period_; }
    [[nodiscard]] static constexpr std::size_t size() noexcept { return sizeof bytes_; }

   private:
    DLManagedTensorVersioned raw_{};
    std::int64_t extents_[4] = {}, strides_[4] = {};
    std::int64_t first_ = 0, period_ = INT64_MAX;
    int releases_ = 0;
    alignas(256) std::byte bytes_[sample_bytes];
};

}  // namespace FERRY_NAMESPACE::conformance::detail
