// ferry: DLPack data types of column types.
#pragma once

#include <ferry/base/dtype.hpp>
#include <ferry/column/type.hpp>

#include <optional>

namespace ferry::inline FERRY_ABI_NAMESPACE {

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

}  // namespace ferry::inline FERRY_ABI_NAMESPACE
