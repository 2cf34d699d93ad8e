// ferry: the buffers and children of each column type, the sizes of the buffers, and the DLPack data types of the
// items.
#pragma once

#include <ferry/base/detail/checked.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/column/type.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace FERRY_NAMESPACE {

/// The content of a buffer of a column.
enum class buffer_kind : std::uint8_t {
    validity,  ///< a bit for each item, 1 if it is valid; absent when there are no nulls
    data,      ///< the items
    offsets,   ///< the start of each item in the data or the child, and the end of the last one
    starts,    ///< the start of each item of a list view or a dense union
    sizes,     ///< the length of each item of a list view
    views,     ///< 16 bytes for each item of a string or binary view
    type_ids,  ///< the type id of each item of a union
    bytes,     ///< the data of offsets; its size is the last offset
};

/// Returns the name of a content in messages.
///
/// \param kind  content of a buffer
[[nodiscard]] constexpr char const* name(buffer_kind kind) noexcept {
    constexpr char const* names[] = {"validity", "data", "offsets", "offsets", "sizes", "views", "type ids", "data"};
    return names[static_cast<std::size_t>(kind)];
}

/// One buffer of a column: its content and the width of its items.
struct buffer_layout {
    buffer_kind kind{};
    std::int32_t bits = 0;  ///< number of bits for each item
};

/// The buffers and children of a type. View types have any number of additional data buffers, and a last buffer with
/// the length of each as an int64.
struct column_layout {
    buffer_layout buffers[3]{};
    int buffer_count = 0;
    int child_count = 0;  ///< number of children; -1 for any number
    bool is_variadic = false;

    [[nodiscard]] constexpr bool has_validity() const noexcept {
        return buffer_count > 0 && buffers[0].kind == buffer_kind::validity;
    }
};

/// Returns the DLPack data type of integers, floats, dates, times, durations and months; the last four are stored as
/// integers. Nothing for other types, such as booleans, which are stored as bits, and decimals.
///
/// \param t  column type
[[nodiscard]] constexpr std::optional<data_type> data_type_of(column_type const& t) noexcept {
    switch (t.id) {
        case type_id::int8: return dtype_of<std::int8_t>;
        case type_id::uint8: return dtype_of<std::uint8_t>;
        case type_id::int16: return dtype_of<std::int16_t>;
        case type_id::uint16: return dtype_of<std::uint16_t>;
        case type_id::int32:
        case type_id::date32:
        case type_id::time32:
        case type_id::interval_months: return dtype_of<std::int32_t>;
        case type_id::uint32: return dtype_of<std::uint32_t>;
        case type_id::int64:
        case type_id::date64:
        case type_id::time64:
        case type_id::timestamp:
        case type_id::duration: return dtype_of<std::int64_t>;
        case type_id::uint64: return dtype_of<std::uint64_t>;
        case type_id::float16: return data_type{type_code::float_, 16};
        case type_id::float32: return dtype_of<float>;
        case type_id::float64: return dtype_of<double>;
        default: return std::nullopt;
    }
}

/// Returns the number of bits of an item of a type of fixed width; 0 for other types.
///
/// \param t  column type
[[nodiscard]] constexpr std::int64_t item_bits(column_type const& t) noexcept {
    switch (t.id) {
        case type_id::boolean: return 1;
        case type_id::interval_day_time: return 64;
        case type_id::interval_month_day_nano: return 128;
        case type_id::decimal: return t.width;
        case type_id::fixed_size_binary: return std::int64_t{8} * t.width;
        default: break;
    }
    auto const type = data_type_of(t);
    return type ? type->bits : 0;
}

/// Returns the buffers and children of a type, in Arrow's order.
///
/// \param t  column type
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
        default: return {{valid, {data, 0}}, 2};  // its width is item_bits, which may exceed int32
    }
}

/// Computes the size of a buffer in bytes; 0 for the data of offsets, whose size is in the offsets.
///
/// \param t    column type
/// \param b    buffer of layout_of(t)
/// \param end  offset + length of the column
/// \param out  size in bytes
/// \return     false if the size overflows
[[nodiscard]] constexpr bool needed_bytes(column_type const& t, buffer_layout b, std::int64_t end,
                                          std::int64_t& out) noexcept {
    std::int64_t const bits = b.kind == buffer_kind::data ? item_bits(t) : b.bits;
    if (b.kind == buffer_kind::bytes) return out = 0, true;
    if (b.kind == buffer_kind::offsets && !detail::checked_add(end, std::int64_t{1}, end)) return false;
    if (bits % 8 == 0) return detail::checked_multiply(end, bits / 8, out);
    out = end / 8 + (end % 8 != 0);
    return true;
}

}  // namespace FERRY_NAMESPACE
