// ferry: the range of bytes of a tensor.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::ipc {

/// The smallest range of bytes that contains all elements of a tensor, for strides of any sign. Borrows the memory.
struct byte_range {
    std::byte const* begin = nullptr;  ///< null when the tensor is empty
    std::size_t length = 0;            ///< length in bytes
    std::int64_t first = 0;            ///< number of bytes from `begin` to element 0

    friend constexpr bool operator==(byte_range const&, byte_range const&) = default;
};

/// Returns the range of bytes of a tensor. Reads metadata only.
/// \param v  a validated view, so that no computation overflows (R32), on a device whose data is an address
[[nodiscard]] constexpr byte_range range_of(tensor_view const& v) noexcept {
    if (v.is_empty()) return {};
    auto const reach = ferry::detail::reach_of(v);
    return {static_cast<std::byte const*>(v.data()) - reach.below, static_cast<std::size_t>(reach.below + reach.above),
            static_cast<std::int64_t>(reach.below)};
}

namespace detail {

/// The place of an exported memory in this process; `begin` is null if the memory is empty.
struct memory_range {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    ferry::device device{};
    bool is_read_only = false;
};

}  // namespace detail
}  // namespace FERRY_NAMESPACE::ipc
