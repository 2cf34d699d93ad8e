// ferry: which buffers and children a column of a type has, and how many bytes of each its items need.
#pragma once

#include <ferry/base/checked.hpp>
#include <ferry/column/type.hpp>

#include <cstddef>
#include <cstdint>

namespace ferry::inline v0 {

/// What a buffer of a column holds.
enum class buffer_kind : std::uint8_t {
    validity,  ///< a bit for each item: 1 is valid. Absent when there are no nulls
    data,      ///< the items, side by side
    offsets,   ///< where each item begins in the data or the child, and one more: where the last one ends
    starts,    ///< where each item begins, in a list view or a dense union
    sizes,     ///< how long each item of a list view is
    views,     ///< 16 bytes for each item of a string or binary view
    type_ids,  ///< which child of a union has the item
    bytes,     ///< what offsets point into: as long as the last offset says
};

/// One buffer of a column: what it is for, and how wide its items are.
struct buffer_layout {
    buffer_kind kind{};
    std::int32_t bits = 0;  ///< for each item
};

/// The buffers and children of a type. View types have more: any number of data buffers, then one with the length of
/// each of those as an int64.
struct column_layout {
    buffer_layout buffers[3]{};
    int buffer_count = 0;
    int child_count = 0;  ///< -1: any number
    bool is_variadic = false;

    [[nodiscard]] constexpr bool has_validity() const noexcept {
        return buffer_count > 0 && buffers[0].kind == buffer_kind::validity;
    }
};

/// Bits of one item of the types that have a fixed width; 0 for the others.
[[nodiscard]] constexpr std::int64_t item_bits(column_type const& t) noexcept {
    switch (t.id) {
        case type_id::boolean: return 1;
        case type_id::int8:
        case type_id::uint8: return 8;
        case type_id::int16:
        case type_id::uint16:
        case type_id::float16: return 16;
        case type_id::int32:
        case type_id::uint32:
        case type_id::float32:
        case type_id::date32:
        case type_id::time32:
        case type_id::interval_months: return 32;
        case type_id::int64:
        case type_id::uint64:
        case type_id::float64:
        case type_id::date64:
        case type_id::time64:
        case type_id::timestamp:
        case type_id::duration:
        case type_id::interval_day_time: return 64;
        case type_id::interval_month_day_nano: return 128;
        case type_id::decimal: return t.width;
        case type_id::fixed_size_binary: return std::int64_t{8} * t.width;
        default: return 0;
    }
}

/// The buffers and children that a type has, in Arrow's order.
[[nodiscard]] constexpr column_layout layout_of(column_type const& t) noexcept {
    using enum buffer_kind;
    constexpr buffer_layout valid{validity, 1};
    switch (t.id) {
        case type_id::null: return column_layout{};
        case type_id::string:
        case type_id::binary: return {{valid, {offsets, 32}, {bytes, 8}}, 3};
        case type_id::large_string:
        case type_id::large_binary: return {{valid, {offsets, 64}, {bytes, 8}}, 3};
        case type_id::string_view:
        case type_id::binary_view: return {{valid, {views, 128}}, 2, 0, true};
        case type_id::list:
        case type_id::map: return {{valid, {offsets, 32}}, 2, 1};
        case type_id::large_list: return {{valid, {offsets, 64}}, 2, 1};
        case type_id::list_view: return {{valid, {starts, 32}, {sizes, 32}}, 3, 1};
        case type_id::large_list_view: return {{valid, {starts, 64}, {sizes, 64}}, 3, 1};
        case type_id::fixed_size_list: return {{valid}, 1, 1};
        case type_id::structure: return {{valid}, 1, -1};
        case type_id::dense_union: return {{{type_ids, 8}, {starts, 32}}, 2, -1};
        case type_id::sparse_union: return {{{type_ids, 8}}, 1, -1};
        case type_id::run_end_encoded: return {{}, 0, 2};
        default: return {{valid, {data, 0}}, 2};  // whose bits are item_bits, which may be more than an int32 has
    }
}

/// Bytes that a buffer needs for items up to `end`, which is offset + length. False when that overflows. What offsets
/// point into is not known from here.
[[nodiscard]] constexpr bool needed_bytes(column_type const& t, buffer_layout b, std::int64_t end,
                                          std::int64_t& out) noexcept {
    std::int64_t const bits = b.kind == buffer_kind::data ? item_bits(t) : b.bits;
    if (b.kind == buffer_kind::bytes) return out = 0, true;
    if (b.kind == buffer_kind::offsets && !detail::checked_add(end, std::int64_t{1}, end)) return false;
    if (bits % 8 == 0) return detail::checked_multiply(end, bits / 8, out);
    out = end / 8 + (end % 8 != 0);
    return true;
}

}  // namespace ferry::inline v0
