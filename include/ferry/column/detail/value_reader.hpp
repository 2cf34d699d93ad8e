// ferry: reads the items of a column as values of a C++ type.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/load.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/type.hpp>
#include <ferry/column/view.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>
#include <type_traits>

namespace FERRY_NAMESPACE::detail {

inline constexpr char const* values_api = "ferry::column::values";

FERRY_COLD inline void report_item(reporter r, column_view c, std::int64_t i, char const* what) {
    message text{"item "};
    text << i << " of a column of format " << c.name_of_format() << ": " << what
         << ": validate the column with validation::full, which names the node and the cause";
    static_cast<void>(report(r, errc::bad_column, text));
}
#if FERRY_HAS_EXCEPTIONS
/// The reporter of operator[]. Its function does not return, so that loops contain no code for the time after an error.
struct item_thrower {};
[[noreturn]] FERRY_COLD inline void report_item(item_thrower, column_view c, std::int64_t i, char const* what) {
    report_item(reporter{values_api, std::source_location::current()}, c, i, what);
    FERRY_UNREACHABLE();
}
#endif

/// Returns the C++ type for the items of a column type, for messages.
[[nodiscard]] constexpr char const* cure_for(column_type const& t) noexcept {
    constexpr char const *integers[] = {"std::int8_t",  "std::uint8_t",  "std::int16_t", "std::uint16_t",
                                        "std::int32_t", "std::uint32_t", "std::int64_t", "std::uint64_t"},
                         *floats[] = {"", "a half, such as _Float16", "float", "double"},
                         *decimals[] = {"ferry::decimal<32>", "ferry::decimal<64>", "ferry::decimal<128>",
                                        "ferry::decimal<256>"};
    if (auto const type = data_type_of(t)) {
        auto const i = std::countr_zero(unsigned{type->bits} / 8);
        return type->code == type_code::float_ ? floats[i] : integers[2 * i + (type->code == type_code::uint)];
    }
    switch (t.id) {
        case type_id::boolean: return "bool";
        case type_id::decimal: return decimals[std::countr_zero(static_cast<unsigned>(t.width) / 32)];
        case type_id::interval_day_time: return "ferry::day_time";
        case type_id::interval_month_day_nano: return "ferry::month_day_nano";
        case type_id::fixed_size_binary:
        case type_id::binary:
        case type_id::large_binary:
        case type_id::binary_view: return "std::span<std::byte const>";
        case type_id::string:
        case type_id::large_string:
        case type_id::string_view: return "std::string_view";
        case type_id::dense_union:
        case type_id::sparse_union: return "its children and type ids: unions give their buffers";
        case type_id::run_end_encoded: return "its children: run ends and values";
        default: return "ferry::column_view";
    }
}

/// Satisfied for types of items of fixed width in whole bytes.
template <class T>
inline constexpr bool is_fixed_width = element<T> && !std::is_same_v<T, bool>;
template <int Bits>
inline constexpr bool is_fixed_width<decimal<Bits>> = true;
template <>
inline constexpr bool is_fixed_width<day_time> = true;
template <>
inline constexpr bool is_fixed_width<month_day_nano> = true;

/// Reads values of `T`. `accepts(type)` returns whether columns of a type have such values; then, `read(i, reporter)`
/// returns item i of the view, or any value after an error.
template <class T>
class value_reader;

/// Reads the buffer without the validity, so the value of a null item is unspecified.
template <class T>
    requires is_fixed_width<T>
class value_reader<T> {
   public:
    static constexpr bool accepts(column_type const& t) noexcept {
        if constexpr (element<T>) return data_type_of(t) == dtype_of<T>;
        else if constexpr (std::is_same_v<T, day_time>) return t.id == type_id::interval_day_time;
        else if constexpr (std::is_same_v<T, month_day_nano>) return t.id == type_id::interval_month_day_nano;
        else return t.id == type_id::decimal && t.width == 8 * std::int32_t{sizeof(T)};
    }
    /// The offset of a view without items is not checked, and not used.
    explicit value_reader(column_view c) noexcept
        : data_{c.length() != 0 ? c.buffers()[1].data : nullptr}, offset_{c.offset()} {}
    [[nodiscard]] T read(std::int64_t i, auto) const noexcept { return load<T>(data_, offset_ + i); }
    [[nodiscard]] void const* begin() const noexcept {
        return data_ == nullptr ? nullptr
                                : static_cast<std::byte const*>(data_) + offset_ * static_cast<std::int64_t>(sizeof(T));
    }

   private:
    void const* data_;
    std::int64_t offset_;
};

template <>
class value_reader<bool> {
   public:
    static constexpr bool accepts(column_type const& t) noexcept { return t.id == type_id::boolean; }
    explicit value_reader(column_view c) noexcept : bits_{c.buffers()[1].data, c.offset(), c.length()} {}
    [[nodiscard]] bool read(std::int64_t i, auto) const noexcept { return bits_[i]; }

   private:
    bitmap_view bits_;
};

/// Reads items as spans of bytes: binary, text, their views, and items of a fixed size. Offsets are checked before they
/// are used.
template <>
class value_reader<std::span<std::byte const>> {
   public:
    static constexpr bool accepts(column_type const& t) noexcept {
        return t.id >= type_id::fixed_size_binary && t.id <= type_id::string_view;
    }
    explicit value_reader(column_view c) noexcept : c_{c}, id_{c.type().id} {
        is_large_ = id_ == type_id::large_binary || id_ == type_id::large_string;
        has_offsets_ = is_large_ || id_ == type_id::binary || id_ == type_id::string;
        if (has_offsets_ && c.length() > 0) end_ = text_bytes(c.node(), is_large_);
    }
    /// Reports errc::bad_column for offsets that decrease or exceed the data, and for a view that refers to bytes
    /// outside its buffers.
    [[nodiscard]] std::span<std::byte const> read(std::int64_t i, auto r) const {
        if (has_offsets_)
            return between(r, i, load_offset(c_.buffers()[1].data, c_.offset() + i, is_large_),
                           load_offset(c_.buffers()[1].data, c_.offset() + i + 1, is_large_));
        if (id_ != type_id::fixed_size_binary) return viewed(r, i);
        auto const width = std::int64_t{c_.type().width};
        auto const* const data = static_cast<std::byte const*>(c_.buffers()[1].data);
        return width == 0 ? std::span<std::byte const>{}
                          : std::span{data + (c_.offset() + i) * width, static_cast<std::size_t>(width)};
    }

    /// The size of item i of text or views, which is not checked and may be negative.
    [[nodiscard]] std::int64_t size(std::int64_t i) const noexcept {
        auto const* const at = c_.buffers()[1].data;
        if (!has_offsets_) return load<std::int32_t>(at, 4 * (c_.offset() + i));
        auto const begin = load_offset(at, c_.offset() + i, is_large_),
                   end = load_offset(at, c_.offset() + i + 1, is_large_);
        return end < begin || begin < 0 ? -1 : end - begin;
    }
    /// The size of the text of a column with offsets.
    [[nodiscard]] std::int64_t end() const noexcept { return end_; }

   private:
    [[nodiscard]] std::span<std::byte const> between(auto r, std::int64_t i, std::int64_t begin,
                                                     std::int64_t end) const {
        if (begin == end) return {};
        auto const* const data = static_cast<std::byte const*>(c_.buffers()[2].data);
        if (begin < 0 || end < begin || end > end_ || data == nullptr)
            return report_item(r, c_, i, "its offsets decrease, or exceed the data"), nothing;
        return {data + begin, static_cast<std::size_t>(end - begin)};
    }
    [[nodiscard]] std::span<std::byte const> viewed(auto r, std::int64_t i) const {
        auto const* const at = static_cast<std::byte const*>(c_.buffers()[1].data) + 16 * (c_.offset() + i);
        auto const item = load<view_item>(at, 0);
        if (item.size < 0) return report_item(r, c_, i, "its size is negative"), nothing;
        if (item.size <= view_item::most_inline) return {at + 4, static_cast<std::size_t>(item.size)};
        auto const count = static_cast<std::int64_t>(c_.buffers().size()) - 3;
        if (item.buffer < 0 || item.buffer >= count)
            return report_item(r, c_, i, "its view refers to a buffer that does not exist"), nothing;
        auto const& data = c_.buffers()[static_cast<std::size_t>(2 + item.buffer)];
        auto const bytes = data.bytes >= 0 ? data.bytes : load<std::int64_t>(c_.buffers().back().data, item.buffer);
        if (item.offset < 0 || item.size > bytes - item.offset || data.data == nullptr)
            return report_item(r, c_, i, "its view points outside its buffer"), nothing;
        return {static_cast<std::byte const*>(data.data) + item.offset, static_cast<std::size_t>(item.size)};
    }

    static constexpr std::span<std::byte const> nothing{};

    column_view c_;
    type_id id_;
    bool is_large_ = false, has_offsets_ = false;
    std::int64_t end_ = 0;
};

/// Reads text, without a check that it is UTF-8.
template <>
class value_reader<std::string_view> : value_reader<std::span<std::byte const>> {
   public:
    using value_reader<std::span<std::byte const>>::value_reader;
    static constexpr bool accepts(column_type const& t) noexcept { return is_text(t.id); }
    [[nodiscard]] std::string_view read(std::int64_t i, auto r) const {
        auto const bytes = value_reader<std::span<std::byte const>>::read(i, r);
        return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
    }
};

/// Reads items as columns: the items of a list, the entries of a map, or a row of a struct as a slice of one item.
template <>
class value_reader<column_view> {
   public:
    static constexpr bool accepts(column_type const& t) noexcept {
        return t.id >= type_id::list && t.id <= type_id::map;
    }
    explicit value_reader(column_view c) noexcept : c_{c} {}
    /// Reports errc::bad_column if the item lies outside the child.
    [[nodiscard]] column_view read(std::int64_t i, auto r) const {
        auto const id = c_.type().id;
        std::int64_t const at = c_.offset() + i;
        if (id == type_id::structure) return {c_.node(), at, 1};
        if (id == type_id::fixed_size_list) return cut(r, i, at * c_.type().width, c_.type().width);
        bool const is_large = id == type_id::large_list || id == type_id::large_list_view;
        auto const begin = load_offset(c_.buffers()[1].data, at, is_large);
        if (id == type_id::list_view || id == type_id::large_list_view)
            return cut(r, i, begin, load_offset(c_.buffers()[2].data, at, is_large));
        auto const end = load_offset(c_.buffers()[1].data, at + 1, is_large);
        return cut(r, i, begin, begin < 0 || end < begin ? -1 : end - begin);
    }

   private:
    [[nodiscard]] column_view cut(auto r, std::int64_t i, std::int64_t begin, std::int64_t length) const {
        auto const child = child_of(c_, 0);
        if (begin < 0 || length < 0 || begin > child.length() || length > child.length() - begin)
            return report_item(r, c_, i, "it lies outside the child"), child;
        return {child.node(), child.offset() + begin, length};
    }

    column_view c_;
};

}  // namespace FERRY_NAMESPACE::detail
