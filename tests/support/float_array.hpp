// Arrays of floats in memory of a type, their adapter, and a consumer that only takes ownership.
#pragma once

#include <ferry/exchange/from_dlpack.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace support {

/// Floats in memory of their own; copies of the array refer to the same memory.
template <class Memory>
struct float_array {
    std::shared_ptr<Memory> memory;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;  // empty: compact
    ferry::device where;
    ferry::stream_token ready_on;
    std::int64_t offset = 0;  // of the first element, in elements

    [[nodiscard]] float* first() const { return static_cast<float*>(memory->data()) + offset; }
    [[nodiscard]] ferry::strides_view steps() const {
        return strides.empty() ? ferry::strides_view{} : ferry::strides_view{strides};
    }
    [[nodiscard]] std::size_t size() const {
        return static_cast<std::size_t>(
            std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{}));
    }
};

struct taken {
    ferry::managed_tensor tensor;
};

}  // namespace support

template <class Memory>
struct ferry::array_traits<support::float_array<Memory>> {
    using array = support::float_array<Memory>;
    static tensor_view view(array& a) { return {a.first(), a.shape, a.steps(), a.where}; }
    static tensor_view view(array const& a) {
        return {const_cast<float const*>(a.first()), a.shape, a.steps(), a.where};
    }
    static array share(array const& a) { return a; }
    static stream_token ready_on(array const& a) { return a.ready_on; }
};

template <>
struct ferry::array_traits<support::taken> {
    static support::taken adopt(managed_tensor m) { return {std::move(m)}; }
};
