// ferry: the engine of column/validate.hpp: checks of the values of a column, which read every byte that an item uses.
#pragma once

#include <ferry/column/validate.hpp>

#include <ferry/base/detail/reporter.hpp>
#include <ferry/column/detail/bits.hpp>
#include <ferry/column/detail/load.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/structure.hpp>
#include <ferry/column/detail/utf8.hpp>
#include <ferry/column/layout.hpp>

#include <array>
#include <cstddef>
#include <cstring>

namespace FERRY_NAMESPACE {
namespace detail {

/// Checks the values of one node. Its structure has been checked, and the host can read its memory.
class contents_check {
   public:
    contents_check(column_view c, column_path const& path, reporter r) noexcept
        : c_{c}, path_{path}, r_{r}, valid_{c.validity()} {}

    [[nodiscard]] bool run() const {
        return check_null_count() && (!c_.has_dictionary() || check_indices()) && check_values();
    }

   private:
    static constexpr std::int64_t milliseconds_of_day = 86'400'000;

    [[nodiscard]] bool check_values() const {
        switch (c_.type().id) {
            case type_id::string:
            case type_id::binary: return check_runs_of_bytes(false);
            case type_id::large_string:
            case type_id::large_binary: return check_runs_of_bytes(true);
            case type_id::string_view:
            case type_id::binary_view: return check_views();
            case type_id::list: return check_offsets(false, child_of(c_, 0).length());
            case type_id::large_list: return check_offsets(true, child_of(c_, 0).length());
            case type_id::map: return check_map();
            case type_id::list_view: return check_ranges(false);
            case type_id::large_list_view: return check_ranges(true);
            case type_id::dense_union:
            case type_id::sparse_union: return check_union();
            case type_id::run_end_encoded:
                return with_integer(child_of(c_, 0).type().id, [this]<class T>(T) { return check_run_ends<T>(); });
            case type_id::decimal: return check_decimals();
            case type_id::date64:
                return check_each<std::int64_t>([](std::int64_t v) { return v % milliseconds_of_day == 0; },
                                                "milliseconds, expected a whole number of days");
            case type_id::time32: return check_times<std::int32_t>();
            case type_id::time64: return check_times<std::int64_t>();
            default: return true;
        }
    }

    [[nodiscard]] FERRY_COLD bool refuse(message const& what) const {
        return report(r_, errc::bad_column, node_error(path_, what));
    }
    [[nodiscard]] FERRY_COLD bool refuse_item(std::int64_t i, char const* what) const {
        return refuse(message{"item "} << i << ": " << what);
    }
    [[nodiscard]] void const* data(std::size_t i) const noexcept { return c_.buffers()[i].data; }
    [[nodiscard]] std::int64_t at(std::int64_t i) const noexcept { return c_.offset() + i; }

    [[nodiscard]] bool check_null_count() const {
        if (c_.type().id == type_id::null) return true;  // all items are null, and Arrow ignores the count
        auto const said = c_.node().null_count.load(std::memory_order_relaxed);
        if (said < 0 || !c_.is_whole()) return true;
        std::int64_t const there = c_.length() - count_set(valid_);
        return said == there || refuse(message{"its null count is "} << said << ", expected " << there);
    }

    /// Checks that `holds` is true for all valid items.
    template <class T, class Holds>
    [[nodiscard]] bool check_each(Holds holds, char const* otherwise) const {
        for (std::int64_t i = 0; i < c_.length(); ++i)
            if (valid_[i])
                if (auto const v = load<T>(data(1), at(i)); !holds(v))
                    return refuse(message{"item "} << i << ": " << std::int64_t{v} << " " << otherwise);
        return true;
    }
    template <class T>
    [[nodiscard]] bool check_times() const {
        constexpr std::int64_t units[] = {1, 1'000, 1'000'000, 1'000'000'000};
        std::int64_t const day = 86'400 * units[static_cast<std::size_t>(c_.type().unit)];
        return check_each<T>([day](T v) { return v >= 0 && v < day; }, "is outside of a day");
    }
    [[nodiscard]] bool check_indices() const {
        auto const values = dictionary_of(c_).length();
        for (std::int64_t i = 0; i < c_.length(); ++i)
            if (valid_[i])
                if (auto const index = load_index(data(1), at(i), c_.type().id); index < 0 || index >= values)
                    return refuse(message{"item "} << i << ": its index is " << index << ", expected 0 to "
                                                   << values - 1 << ", the items of the dictionary");
        return true;
    }

    /// Checks that the offsets do not decrease, also at nulls, that they are within `end` items or bytes, and that each
    /// item satisfies `check(i, begin, end)`. Each offset is loaded once, and checked before the item is read.
    template <class Check>
    [[nodiscard]] bool check_offsets(bool is_large, std::int64_t end, Check check) const {
        if (c_.length() == 0) return true;
        std::int64_t last = load_offset(data(1), at(0), is_large);
        if (last < 0) return refuse(message{"offset 0 is "} << last << ", expected at least 0");
        for (std::int64_t i = 0; i < c_.length(); ++i) {
            auto const next = load_offset(data(1), at(i + 1), is_large);
            if (next < last)
                return refuse(message{"offset "} << i + 1 << " is " << next << ", expected at least " << last
                                                 << ", the offset before it");
            if (next > end)
                return end < 0 ? refuse(message{"its last offset is "} << end << ", expected at least 0")
                               : refuse(message{"its offsets end at "} << next << ", expected at most " << end);
            if (!check(i, last, next)) return false;
            last = next;
        }
        return true;
    }
    [[nodiscard]] bool check_offsets(bool is_large, std::int64_t end) const {
        return check_offsets(is_large, end, [](std::int64_t, std::int64_t, std::int64_t) { return true; });
    }
    [[nodiscard]] bool check_runs_of_bytes(bool is_large) const {
        if (c_.length() == 0) return true;
        auto const* const bytes = static_cast<unsigned char const*>(c_.buffers()[2].data);
        bool const is_read = is_text(c_.type().id);
        return check_offsets(is_large, text_bytes(c_.node(), is_large),
                             [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
                                 if (bytes == nullptr && end > 0)
                                     return refuse(message{"its data buffer is null, but its offsets are not 0"});
                                 return !is_read || !valid_[i] || is_utf8(bytes + begin, end - begin) ||
                                        refuse_item(i, "it is not UTF-8");
                             });
    }

    [[nodiscard]] bool check_views() const {
        auto const count = static_cast<std::int64_t>(c_.buffers().size()) - 3;
        void const* const sizes = c_.buffers().back().data;
        for (std::int64_t k = 0; k < count; ++k)
            if (std::int64_t bytes = 0; !load_size(sizes, k, bytes)) return false;
        for (std::int64_t i = 0; i < c_.length(); ++i)
            if (valid_[i] && !check_view(i, count, sizes)) return false;
        return true;
    }
    /// Loads and checks the size of a data buffer of views. The sizes are in a buffer that another process may change.
    [[nodiscard]] bool load_size(void const* sizes, std::int64_t k, std::int64_t& bytes) const {
        bytes = load<std::int64_t>(sizes, k);
        auto const& b = c_.buffers()[static_cast<std::size_t>(2 + k)];
        if (bytes < 0) return refuse(message{"data buffer "} << k << " has " << bytes << " bytes, expected at least 0");
        if (b.bytes >= 0 && b.bytes < bytes)
            return refuse(message{"data buffer "} << k << " holds " << b.bytes << " bytes, needs " << bytes);
        return b.data != nullptr || bytes == 0 ||
               refuse(message{"data buffer "} << k << " is null, needs " << bytes << " bytes");
    }
    [[nodiscard]] bool check_view(std::int64_t i, std::int64_t count, void const* sizes) const {
        auto const* const item_bytes = static_cast<unsigned char const*>(data(1)) + 16 * at(i);
        auto const item = load<view_item>(item_bytes, 0);
        if (item.size < 0) return refuse_item(i, "its size is negative");
        unsigned char const* begin = item_bytes + 4;
        if (item.size <= view_item::most_inline) {
            for (auto k = item.size; k < view_item::most_inline; ++k)
                if (begin[k] != 0) return refuse_item(i, "bytes after its end are not 0");
        } else {
            if (item.buffer < 0 || item.buffer >= count)
                return refuse_item(i, "it refers to a data buffer that does not exist");
            std::int64_t bytes = 0;
            if (!load_size(sizes, item.buffer, bytes)) return false;
            if (item.offset < 0 || item.size > bytes - item.offset)
                return refuse_item(i, "it lies outside its data buffer");
            begin = static_cast<unsigned char const*>(data(static_cast<std::size_t>(2 + item.buffer))) + item.offset;
            if (std::memcmp(begin, item.prefix, sizeof item.prefix) != 0)
                return refuse_item(i, "its prefix differs from the start of its data");
        }
        return !is_text(c_.type().id) || is_utf8(begin, item.size) || refuse_item(i, "it is not UTF-8");
    }

    [[nodiscard]] bool check_map() const {
        auto const entries = child_of(c_, 0);
        return check_offsets(false, entries.length()) && check_no_nulls(entries, "entries of a map") &&
               check_no_nulls(child_of(entries, 0), "keys of a map");
    }
    [[nodiscard]] bool check_no_nulls(column_view c, char const* what) const {
        auto const nulls = count_nulls(c, r_);
        return nulls == 0 || refuse(message{} << nulls << " " << what << " are null, expected none");
    }
    [[nodiscard]] bool check_ranges(bool is_large) const {
        auto const items = child_of(c_, 0).length();
        for (std::int64_t i = 0; i < c_.length(); ++i) {
            auto const begin = load_offset(data(1), at(i), is_large), size = load_offset(data(2), at(i), is_large);
            if (begin < 0 || size < 0 || begin > items || size > items - begin)
                return refuse_item(i, "it lies outside the child");
        }
        return true;
    }

    [[nodiscard]] bool check_union() const {
        union_children const by_id{c_.type()};
        bool const is_dense = c_.type().id == type_id::dense_union;
        std::array<std::int32_t, 128> last{};
        for (std::int64_t i = 0; i < c_.length(); ++i) {
            auto const type = load<std::int8_t>(data(0), at(i));
            int const child = type < 0 ? -1 : by_id.child[static_cast<std::size_t>(type)];
            if (child < 0) return refuse_item(i, "its type id is not in its format");
            if (!is_dense) continue;
            auto const place = load<std::int32_t>(data(1), at(i));
            if (place < 0 || place >= child_of(c_, child).length()) return refuse_item(i, "it lies outside its child");
            if (place < last[static_cast<std::size_t>(child)])
                return refuse_item(i, "it lies before an earlier item of its child");
            last[static_cast<std::size_t>(child)] = place;
        }
        return true;
    }
    template <class T>
    [[nodiscard]] bool check_run_ends() const {
        auto const ends = child_of(c_, 0);
        if (!check_no_nulls(ends, "run ends")) return false;
        T last = 0;
        for (std::int64_t i = 0; i < ends.length(); ++i) {
            T const next = load<T>(ends.buffers()[1].data, ends.offset() + i);
            if (next <= last)
                return refuse(message{"run "} << i << " ends at " << std::int64_t(next) << ", expected more than "
                                              << std::int64_t(last) << ", the end before it");
            last = next;
        }
        auto const end = c_.offset() + c_.length();
        return std::int64_t(last) >= end ||
               refuse(message{"its runs end at "} << std::int64_t(last) << ", expected at least " << end
                                                  << ", the end of its items");
    }

    /// Checks that |value| < 10^precision, in 256 bits.
    [[nodiscard]] bool check_decimals() const {
        using words = std::array<std::uint64_t, 4>;
        auto const bytes = static_cast<std::size_t>(c_.type().width / 8);
        words limit{1};
        for (int k = 0; k < c_.type().precision; ++k) {
            std::uint64_t carry = 0;
            for (auto& w : limit) {
                auto const low = (w & 0xffff'ffff) * 10 + carry, high = (w >> 32) * 10 + (low >> 32);
                w = high << 32 | (low & 0xffff'ffff);
                carry = high >> 32;
            }
        }
        for (std::int64_t i = 0; i < c_.length(); ++i) {
            if (!valid_[i]) continue;
            words size{};
            std::memcpy(size.data(), static_cast<std::byte const*>(data(1)) + at(i) * (c_.type().width / 8), bytes);
            FERRY_KEEP_LOADED(size, m);
            auto* const begin = reinterpret_cast<unsigned char*>(size.data());
            if (begin[bytes - 1] >= 0x80) {
                std::memset(begin + bytes, 0xff, sizeof size - bytes);
                std::uint64_t carry = 1;
                for (auto& w : size) {
                    w = ~w + carry;
                    carry = carry != 0 && w == 0;
                }
            }
            std::size_t top = size.size() - 1;
            while (top != 0 && size[top] == limit[top]) --top;
            if (size[top] >= limit[top]) return refuse_item(i, "it has more digits than its precision");
        }
        return true;
    }

    column_view c_;
    column_path path_;
    reporter r_;
    bitmap_view valid_;
};

[[nodiscard]] inline bool check_column(column_view c, validation how, reporter r) {
    column_path const path{c.name()};
    return check_structure(c, path, r) &&
           (how == validation::structure ||
            (check_host(c, r) && for_each_node(c, path, [&](column_view n, column_path const& its) {
                 return contents_check{n, its, r}.run();
             })));
}

}  // namespace detail

#if FERRY_HAS_EXCEPTIONS
FERRY_INLINE void validate(column_view c, validation how, std::source_location where) {
    static_cast<void>(detail::check_column(c, how, {"ferry::validate", where}));
}
#endif
FERRY_INLINE result<> try_validate(column_view c, validation how, std::source_location where) {
    return detail::attempt<void>("ferry::validate", where,
                                 [&](detail::reporter r) { return detail::check_column(c, how, r); });
}

}  // namespace FERRY_NAMESPACE
