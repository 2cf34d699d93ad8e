// A producer written with the C header only, whose deleter counts its calls.
#pragma once

#include <ferry/abi/dlpack.hpp>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace support {

/// A managed struct that owns nothing, whose fields a test sets; counts the calls of its deleter.
template <class Raw>
class basic_producer {
   public:
    static constexpr int max_rank = 8;

    Raw raw{};
    std::int64_t shape[max_rank] = {};
    std::int64_t strides[max_rank] = {};
    int deleter_calls = 0;
    Raw* deleted = nullptr;

    /// A tensor on the host, version 1.3. Without strides they are NULL (R24).
    explicit basic_producer(void* data, DLDataType dtype, std::initializer_list<std::int64_t> extents,
                            std::initializer_list<std::int64_t> steps = {}) {
        if constexpr (std::is_same_v<Raw, DLManagedTensorVersioned>) raw.version = {1, 3};
        raw.manager_ctx = this;
        raw.deleter = [](Raw* self) {
            auto* producer = static_cast<basic_producer*>(self->manager_ctx);
            ++producer->deleter_calls;
            producer->deleted = self;
        };
        int rank = 0;
        for (auto const extent : extents) shape[rank++] = extent;
        int i = 0;
        for (auto const step : steps) strides[i++] = step;
        auto& t = raw.dl_tensor;
        t.data = data;
        t.device = {static_cast<DLDeviceType>(1), 0};
        t.ndim = rank;
        t.dtype = dtype;
        t.shape = shape;
        t.strides = steps.size() != 0 ? strides : nullptr;
    }
    basic_producer(basic_producer const&) = delete;
    basic_producer& operator=(basic_producer const&) = delete;

    [[nodiscard]] DLTensor& tensor() noexcept { return raw.dl_tensor; }
    basic_producer& on(std::int32_t device_type, std::int32_t id = 0) noexcept {
        raw.dl_tensor.device = {static_cast<DLDeviceType>(device_type), id};
        return *this;
    }
};

using counting_producer = basic_producer<DLManagedTensorVersioned>;
using legacy_producer = basic_producer<DLManagedTensor>;

inline constexpr DLDataType float32{2, 32, 1};
inline constexpr DLDataType int32{0, 32, 1};
inline constexpr DLDataType uint8{1, 8, 1};

}  // namespace support
