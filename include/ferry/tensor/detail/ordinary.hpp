// ferry: the fast path of validation, for common structs that pass all checks. validate.hpp checks the other structs.
#pragma once

#include <ferry/abi/dlpack.hpp>
#include <ferry/base/detail/checked.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/version.hpp>
#include <ferry/config.hpp>

#include <cstddef>
#include <cstdint>

namespace FERRY_NAMESPACE::detail {

/// For numbers of elements below this limit, sums over 64 dimensions cannot overflow, for types of one lane.
inline constexpr std::int64_t ordinary_limit = std::int64_t{1} << 48;

/// Returns whether the fields other than the extents and strides pass all checks, and are common: known device, plain
/// type of whole bytes, data, no byte offset, at most 64 dimensions, and a 64-bit address far from overflow.
[[nodiscard]] FERRY_ALWAYS_INLINE bool is_ordinary(DLTensor const& t) noexcept {
    device const where{t.device};
    std::uint64_t const before = std::uint64_t{reinterpret_cast<std::uintptr_t>(t.data)} - 1;  // large for NULL
    return sizeof t.data == 8 && t.dtype.code <= abi::code::opaque_handle && t.dtype.bits != 0 &&
           t.dtype.bits % 8 == 0 && t.dtype.lanes == 1 &&
           (where.type == device_type::cpu || (is_known(where.type) && where.id >= 0)) &&
           static_cast<unsigned>(t.ndim) <= 64u && t.shape != nullptr && (before >> 62 | t.byte_offset) == 0;
}
/// Returns whether a struct is of the supported major version (R2) and ordinary.
[[nodiscard]] FERRY_ALWAYS_INLINE bool is_ordinary_struct(DLManagedTensorVersioned const* m) noexcept {
    if (m->version.major != version::current.major) return false;
    auto const& t = m->dl_tensor;
    return is_ordinary(t);
}

template <bool HasStrides, class Write>
[[nodiscard]] FERRY_ALWAYS_INLINE bool is_compact_with(std::int64_t const* shape, std::int64_t const* strides, int rank,
                                                       Write write) noexcept {
    // An extent below 1 makes this product 0 or at least 2^63. Further factors keep it so, or overflow.
    std::uint64_t count = 1;
    for (std::ptrdiff_t i = rank - 1; i >= 0; --i) {
        auto const stride = HasStrides ? strides[i] : static_cast<std::int64_t>(count);
        write(i, shape[i], stride);
        if (static_cast<std::uint64_t>(stride) != count && shape[i] != 1) [[unlikely]]
            return false;  // R27
        if (!checked_multiply(static_cast<std::uint64_t>(shape[i]), count, count)) return false;
    }
    return count - 1 < std::uint64_t{ordinary_limit};
}
/// Returns whether the extents and strides of an ordinary tensor pass all checks, and are those of compact row-major
/// elements, at least one. Passes them to `write(i, extent, stride)`, beginning with the last, until one fails.
template <class Write>
[[nodiscard]] FERRY_ALWAYS_INLINE bool is_compact(DLTensor const& t, Write write) noexcept {
    return t.strides != nullptr ? is_compact_with<true>(t.shape, t.strides, t.ndim, write)
                                : is_compact_with<false>(t.shape, nullptr, t.ndim, write);
}
[[nodiscard]] FERRY_ALWAYS_INLINE bool is_compact(DLTensor const& t) noexcept {
    return is_compact(t, [](std::ptrdiff_t, std::int64_t, std::int64_t) {});
}

/// Returns whether the extents and strides of an ordinary tensor pass all checks, and are common: at least one element,
/// and a reach far from overflow.
[[nodiscard]] inline bool is_strided(DLTensor const& t) noexcept {
    std::int64_t count = 1, lowest = 0, highest = 0, reach = 0;
    for (int i = 0; i < t.ndim; ++i) {
        auto const extent = t.shape[i];
        if (extent <= 0 || !checked_multiply(count, extent, count)) return false;
        if (t.strides == nullptr || extent == 1) continue;
        if (!checked_multiply(extent - 1, t.strides[i], reach)) return false;
        if (reach >= ordinary_limit || reach <= -ordinary_limit) return false;
        (reach < 0 ? lowest : highest) += reach;
    }
    auto const below = static_cast<std::uint64_t>(-lowest) * (t.dtype.bits / 8u);
    return count < ordinary_limit && highest < ordinary_limit && lowest > -ordinary_limit &&
           below <= reinterpret_cast<std::uintptr_t>(t.data);
}

}  // namespace FERRY_NAMESPACE::detail
