// ferry: reads numbers of a buffer, which may lie at any address.
#pragma once

#include <ferry/column/type.hpp>
#include <ferry/column/view.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE::detail {

/// Loads element `i` of an array of `T`, exactly once, because another process may write to the memory. The address
/// need not be aligned: Arrow recommends alignment, but slices of files have none.
template <class T>
    requires std::is_trivially_copyable_v<T>
[[nodiscard]] inline T load(void const* data, std::int64_t i) noexcept {
    T value;
    std::memcpy(&value, static_cast<std::byte const*>(data) + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    if constexpr (std::is_integral_v<T>) FERRY_KEEP_LOADED(value, r);
    else FERRY_KEEP_LOADED(value, m);
    return value;
}

/// Loads element `i` of an array of offsets, starts or sizes, which are int32 or int64.
[[nodiscard]] inline std::int64_t load_offset(void const* data, std::int64_t i, bool is_large) noexcept {
    return is_large ? load<std::int64_t>(data, i) : load<std::int32_t>(data, i);
}

/// Returns the size of the buffer that the offsets of a node refer to. If the size is unknown, returns the last offset
/// of the node, not that of a slice. The node must not be empty.
[[nodiscard]] inline std::int64_t text_bytes(column_node const& n, bool is_large) noexcept {
    return n.buffers[2].bytes >= 0 ? n.buffers[2].bytes : load_offset(n.buffers[1].data, n.offset + n.length, is_large);
}

/// Calls `f` with a value of the C++ type of an integer column.
template <class F>
constexpr decltype(auto) with_integer(type_id id, F f) {
    switch (id) {
        case type_id::int8: return f(std::int8_t{});
        case type_id::uint8: return f(std::uint8_t{});
        case type_id::int16: return f(std::int16_t{});
        case type_id::uint16: return f(std::uint16_t{});
        case type_id::int32: return f(std::int32_t{});
        case type_id::uint32: return f(std::uint32_t{});
        case type_id::uint64: return f(std::uint64_t{});
        default: return f(std::int64_t{});
    }
}

/// Loads element `i` of an integer column's data as an index; returns -1 for negative values, and for values beyond
/// int64.
[[nodiscard]] inline std::int64_t load_index(void const* data, std::int64_t i, type_id id) noexcept {
    return with_integer(id, [&]<class T>(T) -> std::int64_t {
        T const value = load<T>(data, i);
        return std::in_range<std::int64_t>(value) && std::cmp_greater_equal(value, 0) ? static_cast<std::int64_t>(value)
                                                                                      : -1;
    });
}

/// The 16 bytes of a string's or binary's view.
struct view_item {
    std::int32_t size = 0;
    unsigned char prefix[4]{};
    std::int32_t buffer = 0, offset = 0;

    /// The maximum number of bytes that are stored in the view itself, from the prefix on.
    static constexpr std::int32_t most_inline = 12;
};
static_assert(sizeof(view_item) == 16);

}  // namespace FERRY_NAMESPACE::detail
