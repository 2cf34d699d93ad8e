// ferry: Arrow's data types and format strings.
#pragma once

#include <ferry/base/checked.hpp>
#include <ferry/config.hpp>

#if !FERRY_HAS_COLUMN
#error "ferry/column and ferry/arrow need a little-endian 64-bit machine: ask FERRY_HAS_COLUMN, and pass tensors"
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ferry::inline FERRY_ABI_NAMESPACE {

/// Arrow's data types, without their parameters. A dictionary-encoded column has the type of its indices.
enum class type_id : std::uint8_t {
    null,
    boolean,
    int8,
    uint8,
    int16,
    uint16,
    int32,
    uint32,
    int64,
    uint64,
    float16,
    float32,
    float64,
    decimal,
    date32,
    date64,
    time32,
    time64,
    timestamp,
    duration,
    interval_months,
    interval_day_time,
    interval_month_day_nano,
    fixed_size_binary,
    binary,
    large_binary,
    binary_view,
    string,
    large_string,
    string_view,
    list,
    large_list,
    list_view,
    large_list_view,
    fixed_size_list,
    structure,
    map,
    dense_union,
    sparse_union,
    run_end_encoded,
};

/// The unit of a time, a timestamp or a duration.
enum class time_unit : std::uint8_t { second, millisecond, microsecond, nanosecond };

/// A type with its parameters. Borrows the text of time zones and unions from the format that it was parsed from.
struct column_type {
    type_id id = type_id::null;
    time_unit unit{};              ///< time32, time64, timestamp, duration
    std::int32_t width = 0;        ///< decimal: bits;  fixed_size_binary: bytes;  fixed_size_list: items
    std::int32_t precision = 0;    ///< decimal: digits
    std::int32_t scale = 0;        ///< decimal: digits after the point, may be negative
    std::string_view parameter{};  ///< timestamp: the zone, empty for none;  unions: the type ids, as `0,1,5`

    friend constexpr bool operator==(column_type const&, column_type const&) = default;
};

namespace detail {

/// Reads a format from its begin on.
class format_reader {
   public:
    constexpr explicit format_reader(std::string_view text) noexcept : rest_{text} {}

    [[nodiscard]] constexpr bool at_end() const noexcept { return rest_.empty(); }
    [[nodiscard]] constexpr bool skip(char c) noexcept {
        if (!rest_.starts_with(c)) return false;
        rest_.remove_prefix(1);
        return true;
    }
    [[nodiscard]] constexpr char take() noexcept {
        if (rest_.empty()) return '\0';
        char const c = rest_.front();
        rest_.remove_prefix(1);
        return c;
    }
    /// A decimal number without sign, blanks or a value beyond int32.
    [[nodiscard]] constexpr bool take_number(std::int32_t& out) noexcept {
        if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9') return false;
        out = 0;
        while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9')
            if (!checked_multiply(out, 10, out) || !checked_add(out, take() - '0', out)) return false;
        return true;
    }
    [[nodiscard]] constexpr std::string_view rest() const noexcept { return rest_; }

   private:
    std::string_view rest_;
};

[[nodiscard]] constexpr std::optional<time_unit> parse_unit(char c) noexcept {
    switch (c) {
        case 's': return time_unit::second;
        case 'm': return time_unit::millisecond;
        case 'u': return time_unit::microsecond;
        case 'n': return time_unit::nanosecond;
        default: return std::nullopt;
    }
}

/// After `d`: `:precision,scale` and the bits, which are 128 unless said.
[[nodiscard]] constexpr bool parse_decimal(format_reader& in, column_type& out) noexcept {
    out.width = 128;
    if (!in.skip(':') || !in.take_number(out.precision) || !in.skip(',')) return false;
    bool const is_negative = in.skip('-');
    if (!in.take_number(out.scale)) return false;
    if (is_negative) out.scale = -out.scale;
    if (in.skip(',') && !in.take_number(out.width)) return false;
    std::int32_t const most = out.width == 32    ? 9
                              : out.width == 64  ? 18
                              : out.width == 128 ? 38
                              : out.width == 256 ? 76
                                                 : 0;
    return out.precision >= 1 && out.precision <= most;
}

/// After `t`: dates, times, timestamps, durations and intervals.
[[nodiscard]] constexpr bool parse_temporal(format_reader& in, column_type& out) noexcept {
    char const kind = in.take();
    char const c = in.take();
    if (kind == 'd') {
        out.id = c == 'D' ? type_id::date32 : type_id::date64;
        return c == 'D' || c == 'm';
    }
    if (kind == 'i') {
        out.id = c == 'M'   ? type_id::interval_months
                 : c == 'D' ? type_id::interval_day_time
                            : type_id::interval_month_day_nano;
        return c == 'M' || c == 'D' || c == 'n';
    }
    auto const unit = parse_unit(c);
    if (!unit) return false;
    out.unit = *unit;
    switch (kind) {
        case 't': out.id = *unit <= time_unit::millisecond ? type_id::time32 : type_id::time64; return true;
        case 'D': out.id = type_id::duration; return true;
        case 's':
            out.id = type_id::timestamp;
            if (!in.skip(':')) return false;
            out.parameter = in.rest();
            in = format_reader{{}};
            return true;
        default: return false;
    }
}

/// Type ids of a union: numbers from 0 to 127, none twice.
[[nodiscard]] constexpr bool parse_type_ids(format_reader& in, column_type& out) noexcept {
    if (!in.skip(':')) return false;
    out.parameter = in.rest();
    std::array<bool, 128> seen{};
    while (!in.at_end()) {
        std::int32_t id = 0;
        if (!in.take_number(id) || id > 127 || seen[static_cast<std::size_t>(id)]) return false;
        seen[static_cast<std::size_t>(id)] = true;
        if (!in.at_end() && (!in.skip(',') || in.at_end())) return false;
    }
    return true;
}

/// After `+`: types with children.
[[nodiscard]] constexpr bool parse_nested(format_reader& in, column_type& out) noexcept {
    switch (in.take()) {
        case 'l': out.id = type_id::list; return true;
        case 'L': out.id = type_id::large_list; return true;
        case 's': out.id = type_id::structure; return true;
        case 'm': out.id = type_id::map; return true;
        case 'r': out.id = type_id::run_end_encoded; return true;
        case 'w': out.id = type_id::fixed_size_list; return in.skip(':') && in.take_number(out.width);
        case 'v': {
            char const c = in.take();
            out.id = c == 'l' ? type_id::list_view : type_id::large_list_view;
            return c == 'l' || c == 'L';
        }
        case 'u': {
            char const c = in.take();
            out.id = c == 'd' ? type_id::dense_union : type_id::sparse_union;
            return (c == 'd' || c == 's') && parse_type_ids(in, out);
        }
        default: return false;
    }
}

/// Types that one letter names, in the order of their ids.
struct letter {
    char c;
    type_id id;
};
inline constexpr letter letters[] = {{'n', type_id::null},    {'b', type_id::boolean},     {'c', type_id::int8},
                                     {'C', type_id::uint8},   {'s', type_id::int16},       {'S', type_id::uint16},
                                     {'i', type_id::int32},   {'I', type_id::uint32},      {'l', type_id::int64},
                                     {'L', type_id::uint64},  {'e', type_id::float16},     {'f', type_id::float32},
                                     {'g', type_id::float64}, {'z', type_id::binary},      {'Z', type_id::large_binary},
                                     {'u', type_id::string},  {'U', type_id::large_string}};

}  // namespace detail

/// Parses an Arrow format string. Strict: blanks, signs and trailing characters are errors. Source: "Data type
/// description -- format strings" of the Arrow C data interface.
///
/// \param format  format string; the result refers to its text
/// \return        the type; nothing if the format is not valid
[[nodiscard]] constexpr std::optional<column_type> parse_format(std::string_view format) noexcept {
    detail::format_reader in{format};
    column_type out;
    char const c = in.take();
    bool ok = false;
    switch (c) {
        case 'd': out.id = type_id::decimal, ok = detail::parse_decimal(in, out); break;
        case 't': ok = detail::parse_temporal(in, out); break;
        case '+': ok = detail::parse_nested(in, out); break;
        case 'w': out.id = type_id::fixed_size_binary, ok = in.skip(':') && in.take_number(out.width); break;
        case 'v': {
            char const kind = in.take();
            out.id = kind == 'z' ? type_id::binary_view : type_id::string_view;
            ok = kind == 'z' || kind == 'u';
            break;
        }
        default:
            for (auto const& known : detail::letters)
                if (known.c == c) out.id = known.id, ok = true;
    }
    bool const is_union = out.id == type_id::dense_union || out.id == type_id::sparse_union;
    if (!ok || (!in.at_end() && !is_union)) return std::nullopt;
    return out;
}

/// The child of each type id of a union, -1 for none, and the number of type ids.
struct union_children {
    std::array<std::int8_t, 128> child{};
    int count = 0;

    /// \param t  type of a union, from parse_format
    constexpr explicit union_children(column_type const& t) noexcept {
        child.fill(-1);
        detail::format_reader in{t.parameter};
        for (std::int32_t id = 0; in.take_number(id); static_cast<void>(in.skip(',')))
            child[static_cast<std::size_t>(id)] = static_cast<std::int8_t>(count++);
    }
};

/// Returns whether a type is a signed or unsigned integer, the types of dictionary indices.
[[nodiscard]] constexpr bool is_integer(type_id id) noexcept { return id >= type_id::int8 && id <= type_id::uint64; }
/// Returns whether a type is binary_view or string_view, which store short values inline and others in data buffers.
[[nodiscard]] constexpr bool is_view(type_id id) noexcept {
    return id == type_id::binary_view || id == type_id::string_view;
}
/// Returns whether a type is dense_union or sparse_union.
[[nodiscard]] constexpr bool is_union(type_id id) noexcept {
    return id == type_id::dense_union || id == type_id::sparse_union;
}
/// Returns whether a type is string, large_string or string_view, which are UTF-8.
[[nodiscard]] constexpr bool is_text(type_id id) noexcept {
    return id == type_id::string || id == type_id::large_string || id == type_id::string_view;
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE
