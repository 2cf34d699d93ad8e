// ferry: Arrow's data types and format strings, and the values of decimals and intervals.
#pragma once

#include <ferry/base/detail/checked.hpp>
#include <ferry/config.hpp>

#if !FERRY_HAS_COLUMN
#error "ferry/column and ferry/arrow need a little-endian 64-bit machine: ask FERRY_HAS_COLUMN, and pass tensors"
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace FERRY_NAMESPACE {

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

/// A format without parameters.
struct plain_format {
    char text[4];
    type_id id;
};
// clang-format off
inline constexpr auto plain_formats = [] {
    using enum type_id;
    return std::to_array<plain_format>({
        {"g", float64}, {"u", string}, {"i", int32}, {"l", int64}, {"+s", structure}, {"+l", list}, {"n", null}, {"b", boolean},
        {"c", int8}, {"C", uint8}, {"s", int16}, {"S", uint16}, {"I", uint32}, {"L", uint64}, {"e", float16}, {"f", float32},
        {"z", binary}, {"Z", large_binary}, {"vz", binary_view}, {"U", large_string}, {"vu", string_view},
        {"tdD", date32}, {"tdm", date64}, {"tts", time32}, {"ttm", time32}, {"ttu", time64}, {"ttn", time64},
        {"tDs", duration}, {"tDm", duration}, {"tDu", duration}, {"tDn", duration},
        {"tiM", interval_months}, {"tiD", interval_day_time}, {"tin", interval_month_day_nano},
        {"+L", large_list}, {"+vl", list_view}, {"+vL", large_list_view}, {"+m", map}, {"+r", run_end_encoded}});
}();
// clang-format on
/// Returns the unit that a character names, or a value beyond the last unit.
[[nodiscard]] constexpr time_unit unit_of(char c) noexcept {
    return static_cast<time_unit>(c == 's' ? 0 : c == 'm' ? 1 : c == 'u' ? 2 : c == 'n' ? 3 : 4);
}

/// Reads a format string from its beginning.
class format_reader {
   public:
    constexpr explicit format_reader(std::string_view text) noexcept : rest_{text} {}

    [[nodiscard]] constexpr bool at_end() const noexcept { return rest_.empty(); }
    [[nodiscard]] constexpr bool skip(std::string_view prefix) noexcept {
        if (!rest_.starts_with(prefix)) return false;
        rest_.remove_prefix(prefix.size());
        return true;
    }
    /// Reads a decimal number without sign or blanks that fits into T.
    template <class T>
    [[nodiscard]] constexpr bool take_number(T& out) noexcept {
        auto const is_digit = [&] { return !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; };
        if (!is_digit()) return false;
        for (out = 0; is_digit(); rest_.remove_prefix(1))
            if (!checked_multiply(out, T{10}, out) || !checked_add(out, T{rest_.front() - '0'}, out)) return false;
        return true;
    }
    [[nodiscard]] constexpr std::string_view take_rest() noexcept { return std::exchange(rest_, {}); }

   private:
    std::string_view rest_;
};

/// Parses `precision,scale` and the number of bits, which is 128 by default.
[[nodiscard]] constexpr bool parse_decimal(format_reader& in, column_type& out) noexcept {
    out.width = 128;
    if (!in.take_number(out.precision) || !in.skip(",")) return false;
    bool const is_negative = in.skip("-");
    if (!in.take_number(out.scale)) return false;
    if (is_negative) out.scale = -out.scale;
    if (in.skip(",") && !in.take_number(out.width)) return false;
    std::int32_t const most = out.width == 32    ? 9
                              : out.width == 64  ? 18
                              : out.width == 128 ? 38
                              : out.width == 256 ? 76
                                                 : 0;
    return out.precision >= 1 && out.precision <= most;
}

/// Parses the unit and the time zone of a timestamp.
[[nodiscard]] constexpr bool parse_timestamp(format_reader& in, column_type& out) noexcept {
    auto const text = in.take_rest();
    if (text.size() < 2 || text[1] != ':') return false;
    out.unit = unit_of(text[0]);
    out.parameter = text.substr(2);
    return out.unit <= time_unit::nanosecond;
}

/// Parses the type ids of a union, which are different numbers from 0 to 127.
[[nodiscard]] constexpr bool parse_type_ids(format_reader& in, column_type& out) noexcept {
    format_reader ids = in;
    out.parameter = in.take_rest();
    std::array<bool, 128> seen{};
    while (!ids.at_end()) {
        std::int32_t id = 0;
        if (!ids.take_number(id) || id > 127 || seen[static_cast<std::size_t>(id)]) return false;
        seen[static_cast<std::size_t>(id)] = true;
        if (!ids.at_end() && (!ids.skip(",") || ids.at_end())) return false;
    }
    return true;
}

}  // namespace detail

/// Parses an Arrow format string. Strict: blanks, signs and trailing characters are errors. Source: "Data type
/// description -- format strings" of the Arrow C data interface.
///
/// \param format  format string; the result refers to its text
/// \return        the type; nothing if the format is not valid
[[nodiscard]] constexpr std::optional<column_type> parse_format(std::string_view format) noexcept {
    if (format.size() < 4 && !format.ends_with('\0')) {
        char text[4]{};
        for (std::size_t i = 0; i < format.size(); ++i) text[i] = format[i];
        for (auto const& f : detail::plain_formats) {
            if (f.text[0] != text[0] || f.text[1] != text[1] || f.text[2] != text[2]) continue;
            bool const has_unit = f.id == type_id::time32 || f.id == type_id::time64 || f.id == type_id::duration;
            return column_type{f.id, has_unit ? detail::unit_of(text[2]) : time_unit{}};
        }
    }
    detail::format_reader in{format};
    column_type out;
    auto const is = [&](std::string_view prefix, type_id id) { return in.skip(prefix) && (out.id = id, true); };
    bool const ok = is("d:", type_id::decimal)             ? parse_decimal(in, out)
                    : is("ts", type_id::timestamp)         ? parse_timestamp(in, out)
                    : is("w:", type_id::fixed_size_binary) ? in.take_number(out.width)
                    : is("+w:", type_id::fixed_size_list)  ? in.take_number(out.width)
                    : is("+ud:", type_id::dense_union)     ? parse_type_ids(in, out)
                    : is("+us:", type_id::sparse_union)    ? parse_type_ids(in, out)
                                                           : false;
    if (!ok || !in.at_end()) return std::nullopt;
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
        for (std::int32_t id = 0; in.take_number(id); static_cast<void>(in.skip(",")))
            child[static_cast<std::size_t>(id)] = static_cast<std::int8_t>(count++);
    }
};

/// Returns whether a type is a signed or unsigned integer, the types of dictionary indices.
///
/// \param id  type
[[nodiscard]] constexpr bool is_integer(type_id id) noexcept { return id >= type_id::int8 && id <= type_id::uint64; }
/// Returns whether a type is binary_view or string_view, which store short values inline and others in data buffers.
///
/// \param id  type
[[nodiscard]] constexpr bool is_view(type_id id) noexcept {
    return id == type_id::binary_view || id == type_id::string_view;
}
/// Returns whether a type is dense_union or sparse_union.
///
/// \param id  type
[[nodiscard]] constexpr bool is_union(type_id id) noexcept {
    return id == type_id::dense_union || id == type_id::sparse_union;
}
/// Returns whether a type is string, large_string or string_view, which are UTF-8.
///
/// \param id  type
[[nodiscard]] constexpr bool is_text(type_id id) noexcept {
    return id == type_id::string || id == type_id::large_string || id == type_id::string_view;
}

/// The stored integer of a decimal, with 32, 64, 128 or 256 bits, in two's complement, little-endian. The value of the
/// decimal is this integer times 10^-scale, with the scale of the column (column_type::scale).
template <int Bits>
    requires(Bits == 32 || Bits == 64 || Bits == 128 || Bits == 256)
struct decimal {
    std::array<std::byte, std::size_t{Bits} / 8> bytes{};

    [[nodiscard]] constexpr bool is_negative() const noexcept {
        return (bytes.back() & std::byte{0x80}) != std::byte{0};
    }
    /// Returns the low 64 bits; an integer of 32 bits is sign-extended.
    [[nodiscard]] constexpr std::int64_t low() const noexcept {
        std::uint64_t word = is_negative() ? ~std::uint64_t{0} : 0;
        std::size_t const n = Bits / 8 < 8 ? Bits / 8 : 8;
        for (std::size_t i = n; i-- > 0;) word = word << 8 | std::to_integer<std::uint64_t>(bytes[i]);
        return static_cast<std::int64_t>(word);
    }

    friend constexpr bool operator==(decimal const&, decimal const&) = default;
};

/// An interval of days and milliseconds.
struct day_time {
    std::int32_t days = 0, milliseconds = 0;

    friend constexpr bool operator==(day_time const&, day_time const&) = default;
};

/// An interval of months, days and nanoseconds, none of which carries into another.
struct month_day_nano {
    std::int32_t months = 0, days = 0;
    std::int64_t nanoseconds = 0;

    friend constexpr bool operator==(month_day_nano const&, month_day_nano const&) = default;
};

}  // namespace FERRY_NAMESPACE
