// ferry: the range of bytes of a tensor.
#pragma once

#include <ferry/base/checked.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/tensor/view.hpp>

#include <cstddef>
#include <cstdint>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// The smallest range of bytes that contains all elements of a tensor, for strides of any sign. Borrows the memory.
struct byte_range {
    std::byte const* begin = nullptr;  ///< null when the tensor is empty
    std::size_t length = 0;            ///< bytes
    std::int64_t first = 0;            ///< bytes from `begin` to element 0

    friend constexpr bool operator==(byte_range const&, byte_range const&) = default;
};

/// Returns the range of bytes of a tensor. Reads metadata only.
/// \param v  a validated view, so that no computation overflows (R32), on a device whose data is an address
[[nodiscard]] constexpr byte_range range_of(tensor_view const& v) noexcept {
    if (v.is_empty()) return {};
    std::int64_t low = 0, high = 0;  // in elements from the first one
    for (int i = 0; i < v.rank(); ++i) {
        if (v.extent(i) == 1) continue;
        std::int64_t const reach = (v.extent(i) - 1) * v.stride(i);
        (reach < 0 ? low : high) += reach;
    }
    std::int64_t const bits = bits_per_element(v.dtype(), v.is_padded());
    std::int64_t const below = (low * bits) >> 3;  // whole bytes, downwards
    std::int64_t const end = (high + 1) * bits;
    std::int64_t const above = (end >> 3) + ((end & 7) != 0);
    return {static_cast<std::byte const*>(v.data()) + below, static_cast<std::size_t>(above - below), -below};
}

namespace detail {

/// The exported range of a memory in this process; null: it is empty.
struct memory_range {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    ferry::device device{};
    bool is_read_only = false;
};

}  // namespace detail
}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
