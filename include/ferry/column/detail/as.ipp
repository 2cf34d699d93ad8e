// ferry: the engine of column/as.hpp. Requires exceptions.
#pragma once

#include <ferry/column/as.hpp>

#include <ferry/abi/arrow.hpp>
#include <ferry/base/detail/checked.hpp>
#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/column/detail/bits.hpp>
#include <ferry/column/detail/load.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/value_reader.hpp>
#include <ferry/column/metadata.hpp>
#include <ferry/space/buffer.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>  // nodes refer to each other
#include <limits>
#include <memory>  // shared ownership of the buffers
#include <new>
#include <source_location>
#include <span>
#include <string_view>
#include <utility>
#include <vector>  // as many buffers and children as the column has

namespace FERRY_NAMESPACE::detail {

/// One conversion. The nodes of the result have offset 0 where they are new, and are views of the source elsewhere.
class conversion {
   public:
    conversion(unconvertible those, char const* api, std::source_location where)
        : those_{those}, api_{api}, where_{where} {}

    [[nodiscard]] column run(column const& c, column_view want) {
        if (has_type(c.view(), want)) return c;
        auto const readable = c.view().try_require_host(api_, where_);
        if (!readable && those_ == unconvertible::stays) return c;
        readable.value();
        held_->source = c.owner();
        auto const parts = convert(c.view(), want, column_path{c.name()});
        return build_column(parts, held_, cpu, {api_, where_});
    }

   private:
    /// The memory of the result.
    struct holder {
        std::shared_ptr<void const> source{};
        std::deque<buffer<host_space>> memory{};
        std::deque<column> between{};  // results of one step that another one converts
    };
    struct node {
        std::vector<column_buffer> buffers{};
        std::vector<column_parts> below{};  // children, or the dictionary
    };
    using indices = std::vector<std::int64_t>;  // -1: null

    // ---- common to all layouts ----

    [[nodiscard]] static bool is_large(column_view c) noexcept { return c.layout().buffers[1].bits == 64; }
    [[nodiscard]] static bool is_text_or_bytes(type_id id) noexcept {
        return id >= type_id::binary && id <= type_id::string_view;
    }
    [[nodiscard]] static bool is_list(type_id id) noexcept {
        return id >= type_id::list && id <= type_id::large_list_view;
    }
    [[nodiscard]] static bool has_starts(type_id id) noexcept {
        return id == type_id::list_view || id == type_id::large_list_view;
    }
    [[nodiscard]] static column_view child_type(column_view c, column_view want, int i) noexcept {
        return child_of(want.child_count() != 0 ? want : c, i);
    }
    [[nodiscard]] static bool has_type(column_view c, column_view want) noexcept {
        if (c.type() != want.type() || c.has_dictionary() != want.has_dictionary()) return false;
        if (want.child_count() != 0 && c.child_count() != want.child_count()) return false;
        for (int i = 0; i < want.child_count(); ++i)
            if (!has_type(child_of(c, i), child_of(want, i))) return false;
        return !c.has_dictionary() || has_type(dictionary_of(c), dictionary_of(want));
    }
    [[nodiscard]] static std::string_view extension_of(column_view c) {
        return metadata_view{c.metadata()}.find("ARROW:extension:name");
    }
    [[noreturn]] FERRY_COLD void refuse(errc code, column_path const& path, message const& what,
                                        message const& fix) const {
        fail(code, api_, node_error(path, what, fix), where_);
    }
    [[noreturn]] FERRY_COLD void refuse_bad(column_path const& path, message const& what) const {
        refuse(errc::bad_column, path, what, ": correct the column in its producer");
    }
    [[noreturn]] FERRY_COLD void refuse_item(column_path const& path, std::int64_t i, column_view want) const {
        refuse(errc::out_of_range, path,
               message{"item "} << i << " has a value that format " << want.name_of_format() << " cannot represent",
               ": choose a wider type");
    }
    void require_count(column_path const& path, std::int64_t count, bool fits_64) const {
        if (!fits_64 && count > (std::numeric_limits<std::int32_t>::max)())
            refuse(errc::overflow, path, message{} << count << " bytes or items are too many for offsets of 32 bits",
                   ": choose the type with offsets of 64 bits, or convert slices");
    }
    [[nodiscard]] static std::int64_t bytes_of(std::int64_t items, std::int64_t width) {
        std::int64_t bytes = 0;
        if (!checked_multiply(items, width, bytes)) throw std::bad_alloc{};
        return bytes;
    }
    /// Memory of a new buffer, with room for a word beyond its end.
    [[nodiscard]] std::byte* add(node& n, std::int64_t items, std::int64_t width) {
        auto const bytes = bytes_of(items, width);
        auto& memory = held_->memory.emplace_back(static_cast<std::size_t>(bytes) + 64);
        n.buffers.push_back({memory.data(), bytes});
        return static_cast<std::byte*>(memory.data());
    }
    [[nodiscard]] static bitmap_view validity(column_view c) noexcept {
        return c.is_without_nulls() ? bitmap_view{} : c.validity();
    }
    void add_validity(node& n, column_view c) {
        auto const bits = c.validity();
        if (c.is_without_nulls()) n.buffers.push_back({});
        else if (bits.offset() % 8 == 0)
            n.buffers.push_back({bits.data() + bits.offset() / 8, bitmap_bytes(bits.length())});
        else copy_bits(bits, add(n, bitmap_bytes(bits.length()), 1));
    }
    [[nodiscard]] static column_parts parts_of(node const& n, column_view c, std::string_view format) noexcept {
        return {.format = format,
                .name = c.name(),
                .length = c.length(),
                .null_count = c.known_null_count(),
                .buffers = n.buffers,
                .children = n.below,
                .flags = c.flags(),
                .metadata = c.metadata()};
    }
    [[nodiscard]] column_parts unchanged(column_view c) {
        auto& n = nodes_.emplace_back();
        for (auto const& child : c.node().children) n.below.push_back(unchanged(child));
        auto out = parts_of(n, c, c.format());
        out.offset = c.offset();
        out.buffers = c.buffers();
        if (c.has_dictionary()) out.dictionary = &nodes_.emplace_back(node{{}, {unchanged(dictionary_of(c))}}).below[0];
        return out;
    }
    /// A result that is the source of the next step.
    [[nodiscard]] column_view hold(column_parts const& parts) {
        return held_->between.emplace_back(build_column(parts, nullptr, cpu, {api_, where_})).view();
    }
    [[nodiscard]] static std::byte const* data_of(column_view c, std::size_t buffer, std::int64_t width) noexcept {
        return static_cast<std::byte const*>(c.buffers()[buffer].data) + (c.length() != 0 ? c.offset() * width : 0);
    }
    template <class T>
    static void store(std::byte* to, std::int64_t i, T value) noexcept {
        std::memcpy(to + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof value);
    }
    template <class F>
    static void with_offset(bool large, F f) {
        large ? f(std::int64_t{}) : f(std::int32_t{});
    }
    /// Items of a block: the compiler copies as many of 8 bytes by vector instructions.
    static constexpr std::size_t block = 32;
    /// Calls `f(values, i, count)` for blocks of a row, which are read once. Blocks of constant size become vector
    /// code.
    template <class T, class F>
    static void for_each_block(std::byte const* from, std::int64_t length, F f) {
        constexpr std::int64_t size = block;
        std::array<T, block> values{};
        std::int64_t i = 0;
        for (; length - i >= size; i += size) {
            std::memcpy(values.data(), from + i * static_cast<std::int64_t>(sizeof(T)), sizeof values);
            f(values, i, std::integral_constant<std::int64_t, size>{});
        }
        if (i == length) return;
        std::memcpy(values.data(), from + i * static_cast<std::int64_t>(sizeof(T)),
                    static_cast<std::size_t>(length - i) * sizeof(T));
        f(values, i, length - i);
    }

    [[nodiscard]] column_parts convert(column_view c, column_view want, column_path const& path) {
        if (those_ == unconvertible::fails) return convert_node(c, want, path);
        if (auto const extension = extension_of(c); !extension.empty() && extension != extension_of(want))
            return unchanged(c);
        auto const count = held_->memory.size();
        try {
            return convert_node(c, want, path);
        } catch (error const&) {
            held_->memory.erase(held_->memory.begin() + static_cast<std::ptrdiff_t>(count), held_->memory.end());
            return unchanged(c);
        }
    }
    [[nodiscard]] column_parts convert_node(column_view c, column_view want, column_path const& path) {
        auto const from = c.type().id, to = want.type().id;
        if (has_type(c, want)) return unchanged(c);
        if (c.has_dictionary() && !want.has_dictionary()) return decode(c, want, path);
        if (c.has_dictionary() == want.has_dictionary()) {
            if (is_integer(from) && is_integer(to)) return integers(c, want, path);
            if (from == type_id::decimal && to == from && c.type().scale == want.type().scale)
                return decimals(c, want, path);
            if (is_text_or_bytes(from) && is_text_or_bytes(to) && (is_text(from) || !is_text(to)))
                return is_view(from) ? from_views(c, want, path) : from_offsets(c, want, path);
            if (is_list(from) && is_list(to)) return lists(c, want, path);
            if (c.type() == want.type() && c.child_count() == want.child_count()) return nested(c, want, path);
        }
        refuse(errc::dtype, path,
               message{"format "} << c.name_of_format() << " cannot be converted to "
                                  << (want.has_dictionary() ? "a dictionary with indices of format " : "format ")
                                  << want.name_of_format(),
               ": choose a type that represents the same values, or compute them in the library that uses them");
    }

    // ---- values of a fixed width ----

    [[nodiscard]] column_parts integers(column_view c, column_view want, column_path const& path) {
        auto& n = nodes_.emplace_back();
        add_validity(n, c);
        with_integer(c.type().id, [&]<class From>(From) {
            with_integer(want.type().id, [&]<class To>(To) {
                if constexpr (sizeof(From) == sizeof(To) && std::is_signed_v<From> == std::is_signed_v<To>) {
                    n.buffers.push_back({data_of(c, 1, sizeof(From)), c.length() * std::int64_t{sizeof(From)}});
                } else {
                    auto* const to = add(n, c.length(), sizeof(To));
                    cast<From, To>(c, to, [&](std::int64_t i) { refuse_item(path, i, want); });
                }
            });
        });
        auto out = parts_of(n, c, want.format());
        if (c.has_dictionary()) {
            n.below.push_back(convert(dictionary_of(c), dictionary_of(want), path.dictionary()));
            out.dictionary = n.below.data();
        }
        return out;
    }
    template <class From, class To, class Refuse>
    static void cast(column_view c, std::byte* to, Refuse refused) {
        if constexpr (std::in_range<To>((std::numeric_limits<From>::max)()) &&
                      std::in_range<To>((std::numeric_limits<From>::min)())) {
            auto const* const from = data_of(c, 1, sizeof(From));
            for (std::int64_t i = 0; i < c.length(); ++i) {
                From value;
                std::memcpy(&value, from + i * std::int64_t{sizeof(From)}, sizeof value);
                store(to, i, static_cast<To>(value));
            }
            return;
        }
        for_each_block<From>(
            data_of(c, 1, sizeof(From)), c.length(), [&](auto const& from, std::int64_t i, auto count) {
                std::array<To, block> out;
                From lost = 0;
                for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k) {
                    out[k] = static_cast<To>(from[k]);
                    lost = static_cast<From>(lost | (static_cast<From>(out[k]) ^ from[k]));
                    if constexpr (std::is_signed_v<From> != std::is_signed_v<To>)
                        lost = static_cast<From>(lost | (std::cmp_less(out[k], 0) != std::cmp_less(from[k], 0)));
                }
                std::memcpy(to + i * static_cast<std::int64_t>(sizeof(To)), out.data(),
                            static_cast<std::size_t>(count) * sizeof(To));
                for (std::int64_t k = 0; lost != 0 && k < count; ++k)
                    if (!std::in_range<To>(from[static_cast<std::size_t>(k)]) && validity(c)[i + k]) refused(i + k);
            });
    }

    using wide = std::array<std::uint64_t, 4>;  // 256 bits, two's complement
    [[nodiscard]] column_parts decimals(column_view c, column_view want, column_path const& path) {
        auto& n = nodes_.emplace_back();
        add_validity(n, c);
        std::int64_t const from_bytes = c.type().width / 8, to_bytes = want.type().width / 8;
        auto const* const from = data_of(c, 1, from_bytes);
        bool const may_lose = to_bytes < from_bytes || want.type().precision < c.type().precision;
        if (from_bytes == to_bytes) n.buffers.push_back({from, c.length() * from_bytes});
        auto* const to = from_bytes != to_bytes ? add(n, c.length(), to_bytes) : nullptr;
        wide most{};
        for (std::int32_t digit = 0; digit < want.type().precision; ++digit) {
            std::uint64_t carry = 9;
            for (auto& word : most) {
                auto const low = (word & 0xffff'ffffu) * 10 + carry, high = (word >> 32) * 10 + (low >> 32);
                word = high << 32 | (low & 0xffff'ffffu);
                carry = high >> 32;
            }
        }
        auto const valid = validity(c);
        auto const run = [&](auto in, auto out) {
            for (std::int64_t i = 0; i < c.length(); ++i) {
                wide value{};
                std::memcpy(value.data(), from + i * in, static_cast<std::size_t>(in));
                if constexpr (in() == 4) value[0] = static_cast<std::uint64_t>(load<std::int32_t>(value.data(), 0));
                constexpr std::size_t words = (in() + 7) / 8;
                auto const sign = value[words - 1] >> 63 != 0 ? ~std::uint64_t{0} : 0;
                for (auto k = words; k < 4; ++k) value[k] = sign;
                if (may_lose && !is_at_most(value, most) && valid[i]) refuse_item(path, i, want);
                if (to == nullptr) continue;
                if constexpr (out() == 4) store(to, i, static_cast<std::uint32_t>(value[0]));
                else
                    for (std::size_t k = 0; k < out() / 8; ++k)  // a copy of them all would wait for their stores
                        std::memcpy(to + i * out + 8 * k, &value[k], 8);
            }
        };
        with_width(from_bytes, [&](auto in) { with_width(to_bytes, [&](auto out) { run(in, out); }); });
        return parts_of(n, c, want.format());
    }
    template <class F>
    static void with_width(std::int64_t bytes, F f) {
        if (bytes == 4) f(std::integral_constant<std::int64_t, 4>{});
        else if (bytes == 8) f(std::integral_constant<std::int64_t, 8>{});
        else if (bytes == 16) f(std::integral_constant<std::int64_t, 16>{});
        else f(std::integral_constant<std::int64_t, 32>{});
    }
    /// Whether the absolute value is at most a positive bound.
    [[nodiscard]] static bool is_at_most(wide const& value, wide const& most) noexcept {
        auto const sign = value[3] >> 63 != 0 ? ~std::uint64_t{0} : 0;  // the complement of -x is x - 1
        for (std::size_t k = 4; k-- > 0;)
            if (auto const word = value[k] ^ sign; word != most[k]) return word < most[k];
        return sign == 0;
    }

    // ---- text, bytes and lists ----

    /// The bytes or items that offsets refer to.
    struct extent {
        std::int64_t begin = 0, end = 0;
    };
    [[nodiscard]] extent used_by(column_view c, column_path const& path) const {
        if (c.length() == 0) return {};
        auto const* const data = c.buffers()[1].data;
        extent const used{load_offset(data, c.offset(), is_large(c)),
                          load_offset(data, c.offset() + c.length(), is_large(c))};
        auto const most = c.child_count() != 0 ? child_of(c, 0).length() : text_bytes(c.node(), is_large(c));
        if (used.begin < 0 || used.end < used.begin || used.end > most)
            refuse_bad(path, message{"its offsets go from "} << used.begin << " to " << used.end << ", expected 0 to "
                                                             << most);
        return used;
    }
    /// Calls `f(begins, ends, i, count)` with arrays of offsets. Each item is checked by itself, because two loads of
    /// one offset may differ.
    template <class F>
    void for_each_offset(column_view c, extent used, column_path const& path, F f) const {
        with_offset(is_large(c), [&]<class T>(T) {
            using word = std::make_unsigned_t<T>;
            auto const first = static_cast<word>(used.begin), last = static_cast<word>(used.end);
            auto const* const data = data_of(c, 1, sizeof(T));
            std::array<word, block> ends;
            for_each_block<word>(data, c.length(), [&](auto& begins, std::int64_t i, auto count) {
                std::memcpy(ends.data(), data + (i + 1) * std::int64_t{sizeof(T)},
                            static_cast<std::size_t>(count) * sizeof(T));
                word bad = 0;  // its sign is set by a negative number
                for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k) {
                    auto const begin = begins[k], end = ends[k];
                    bad |= begin | end | (begin - first) | (end - begin) | (last - end);
                }
                if (static_cast<T>(bad) < 0)
                    refuse_bad(path, message{"its offsets decrease between "} << used.begin << " and " << used.end);
                f(begins, ends, i, count);
            });
        });
    }
    /// Writes the offsets of `c` as those of a type with offsets.
    void add_offsets(node& n, column_view c, extent used, bool large, column_path const& path) {
        require_count(path, used.end - used.begin, large);
        with_offset(large, [&]<class T>(T) {
            constexpr std::int64_t width = sizeof(T);
            if (large == is_large(c) && used.begin == 0 && c.length() != 0)
                return n.buffers.push_back({data_of(c, 1, width), (c.length() + 1) * width});
            auto* const to = add(n, c.length() + 1, width);
            for_each_offset(c, used, path, [&](auto const& begins, auto const&, std::int64_t i, auto count) {
                auto const first = static_cast<std::remove_cvref_t<decltype(begins[0])>>(used.begin);
                std::array<T, block> out;
                for (std::size_t k = 0; k < static_cast<std::size_t>(count); ++k)
                    out[k] = static_cast<T>(begins[k] - first);
                std::memcpy(to + i * width, out.data(), static_cast<std::size_t>(count * width));
            });
            store(to, c.length(), static_cast<T>(used.end - used.begin));
        });
    }
    [[nodiscard]] column_parts from_offsets(column_view c, column_view want, column_path const& path) {
        auto& n = nodes_.emplace_back();
        auto used = used_by(c, path);
        if (!is_view(want.type().id) && is_large(c) == is_large(want)) used.begin = 0;  // then the offsets are shared
        auto const bytes = used.end - used.begin;
        auto const* data = static_cast<std::byte const*>(c.buffers()[2].data);
        if (bytes != 0 && data == nullptr) refuse_bad(path, message{"its data buffer is null"});
        if (data != nullptr) data += used.begin;
        add_validity(n, c);
        if (!is_view(want.type().id)) {
            add_offsets(n, c, used, is_large(want), path);
            n.buffers.push_back({data, bytes});
            return parts_of(n, c, want.format());
        }
        auto* const to = add(n, c.length(), 16);
        auto const valid = validity(c);
        constexpr std::int64_t step = std::int64_t{1} << 30;  // data beyond 32 bits has a buffer for each step
        for_each_offset(c, used, path, [&](auto const& begins, auto const& ends, std::int64_t i, auto count) {
            for (std::int64_t k = 0; k < count; ++k) {
                auto const begin = static_cast<std::int64_t>(begins[static_cast<std::size_t>(k)]) - used.begin;
                auto size = static_cast<std::int64_t>(ends[static_cast<std::size_t>(k)]) - used.begin - begin;
                if (size > (std::numeric_limits<std::int32_t>::max)() && !valid[i + k]) size = 0;
                view_item item{static_cast<std::int32_t>(size)};
                if (size > view_item::most_inline) {
                    require_count(path, size, false);
                    std::memcpy(item.prefix, data + begin, 4);
                    item.buffer = static_cast<std::int32_t>(begin / step);
                    item.offset = static_cast<std::int32_t>(begin % step);
                } else if (bytes - begin >= 16) {
                    std::uint64_t words[2];
                    std::memcpy(words, data + begin, 16);
                    auto const more = size > 8 ? size - 8 : 0;
                    words[0] &= size >= 8 ? ~std::uint64_t{0} : low_bits(8 * size);
                    words[1] &= low_bits(8 * more);
                    std::memcpy(reinterpret_cast<std::byte*>(&item) + 4, words, 12);
                } else if (size != 0) {
                    std::memcpy(reinterpret_cast<std::byte*>(&item) + 4, data + begin, static_cast<std::size_t>(size));
                }
                store(to, i + k, item);
            }
        });
        std::vector<std::int64_t> lengths;
        for (std::int64_t begin = 0; begin < bytes; begin += step) {
            lengths.push_back((std::min)(bytes - begin, 3 * step));
            n.buffers.push_back({data + begin, lengths.back()});
        }
        auto const count = static_cast<std::int64_t>(lengths.size());
        auto* const last = add(n, count, 8);
        for (std::int64_t k = 0; k < count; ++k) store(last, k, lengths[static_cast<std::size_t>(k)]);
        return parts_of(n, c, want.format());
    }
    [[nodiscard]] column_parts from_views(column_view c, column_view want, column_path const& path) {
        auto& n = nodes_.emplace_back();
        add_validity(n, c);
        if (is_view(want.type().id)) {
            auto const of = c.buffers();
            n.buffers.push_back({data_of(c, 1, 16), c.length() * 16});
            n.buffers.insert(n.buffers.end(), of.begin() + 2, of.end());
        } else {
            add_text(n, c, c.length(), is_large(want), path, [](std::int64_t i) { return i; });
        }
        return parts_of(n, c, want.format());
    }
    /// Adds offsets and data of the items `at(i)`; those below 0 are null.
    template <class At>
    void add_text(node& n, column_view c, std::int64_t length, bool large, column_path const& path, At at) {
        value_reader<std::span<std::byte const>> const items{c};
        auto const valid = validity(c);
        reporter const r{api_, where_};
        std::int64_t total = 0;
        with_offset(large, [&]<class T>(T) {
            auto* const offsets = add(n, length + 1, sizeof(T));
            for (std::int64_t i = 0; i < length; ++i) {
                store(offsets, i, static_cast<T>(total));
                auto const k = at(i);
                auto const size = k >= 0 && valid[k] ? items.size(k) : 0;
                if (size < 0 || !checked_add(total, size, total))
                    refuse_bad(path, message{"item "} << i << " has " << size << " bytes");
            }
            require_count(path, total, large);
            store(offsets, length, static_cast<T>(total));
        });
        auto* const to = add(n, total, 1);
        // Copies of constant size need no calls. Items of 12 bytes lie in a view, which has so many.
        auto const* const text = static_cast<std::byte const*>(is_view(c.type().id) ? nullptr : c.buffers()[2].data);
        std::int64_t done = 0;
        for (std::int64_t i = 0; i < length; ++i) {
            auto const k = at(i);
            if (k < 0 || !valid[k]) continue;
            auto const item = items.read(k, r);
            auto const size = static_cast<std::int64_t>(item.size());
            if (size > total - done) refuse_bad(path, message{"item "} << i << " changed while it was read");
            if (size <= view_item::most_inline && size != 0 &&
                (text == nullptr || text + items.end() - item.data() >= 12))
                std::memcpy(to + done, item.data(), 12);
            else if (size != 0) std::memcpy(to + done, item.data(), item.size());
            done += size;
        }
        if (done != total) refuse_bad(path, message{"an item changed while it was read"});
    }

    [[nodiscard]] column_parts lists(column_view c, column_view want, column_path const& path) {
        auto& n = nodes_.emplace_back();
        add_validity(n, c);
        auto child = child_of(c, 0);
        auto const from_starts = has_starts(c.type().id), to_starts = has_starts(want.type().id);
        if (!from_starts) {
            auto const used = used_by(c, path);
            child = {child.node(), child.offset() + used.begin, used.end - used.begin};
            if (to_starts) add_starts(n, c, used, is_large(want), path);
            else add_offsets(n, c, used, is_large(want), path);
        } else {
            child = from_list_views(n, c, want, to_starts, path);
        }
        column_path const its{path, c.type().id, 0, child.name()};
        n.below.push_back(convert(child, child_type(c, want, 0), its));
        return parts_of(n, c, want.format());
    }
    void add_starts(node& n, column_view c, extent used, bool large, column_path const& path) {
        require_count(path, used.end - used.begin, large);
        with_offset(large, [&]<class T>(T) {
            auto* const starts = add(n, c.length(), sizeof(T));
            auto* const sizes = add(n, c.length(), sizeof(T));
            for_each_offset(c, used, path, [&](auto const& begins, auto const& ends, std::int64_t i, auto count) {
                for (std::int64_t k = 0; k < count; ++k) {
                    auto const begin = begins[static_cast<std::size_t>(k)], end = ends[static_cast<std::size_t>(k)];
                    store(starts, i + k, static_cast<T>(static_cast<std::int64_t>(begin) - used.begin));
                    store(sizes, i + k, static_cast<T>(end - begin));
                }
            });
        });
    }
    /// Writes starts and sizes, or offsets; returns the child that they refer to.
    [[nodiscard]] column_view from_list_views(node& n, column_view c, column_view want, bool to_starts,
                                              column_path const& path) {
        auto const child = child_of(c, 0);
        auto const valid = validity(c);
        std::vector<extent> runs;  // of items that follow each other in the result
        std::int64_t total = 0;
        auto const length = c.length();
        with_offset(is_large(c), [&]<class From>(From) {
            auto const *const starts = data_of(c, 1, sizeof(From)), *const sizes = data_of(c, 2, sizeof(From));
            with_offset(is_large(want), [&]<class To>(To) {
                auto* const first = add(n, length + !to_starts, sizeof(To));
                auto* const second = to_starts ? add(n, length, sizeof(To)) : nullptr;
                for (std::int64_t i = 0; i < length; ++i) {
                    std::int64_t start = load<From>(starts, i), size = load<From>(sizes, i);
                    // The items of a null stay if they are between those of its neighbours.
                    bool const is_null = !valid[i];
                    if (is_null && (to_starts || runs.empty() || start != runs.back().end)) start = size = 0;
                    if (start < 0 || size < 0 || start > child.length() || size > child.length() - start) {
                        if (!is_null)
                            refuse_bad(path, message{"item "} << i << " has " << size << " values from " << start
                                                              << " on, expected values of its child, which has "
                                                              << child.length());
                        size = 0;
                    }
                    store(first, i, static_cast<To>(to_starts ? start : total));
                    if (to_starts) {
                        require_count(path, (std::max)(start, size), is_large(want));
                        store(second, i, static_cast<To>(size));
                    } else if (size != 0) {
                        if (runs.empty() || runs.back().end != start) runs.push_back({start, start});
                        runs.back().end += size;
                        if (!checked_add(total, size, total)) total = (std::numeric_limits<std::int64_t>::max)();
                        require_count(path, total, is_large(want));
                    }
                }
                if (!to_starts) store(first, length, static_cast<To>(total));
            });
        });
        if (to_starts) return child;
        std::vector<column_view> items;
        for (auto const& run : runs) items.emplace_back(child.node(), child.offset() + run.begin, run.end - run.begin);
        if (items.empty()) items.emplace_back(child.node(), child.offset(), 0);
        return items.size() == 1 ? items[0] : join(items);
    }
    [[nodiscard]] column_view join(std::vector<column_view> const& chunks) {
        return held_->between.emplace_back(concat(chunks, host_space{}, api_, where_)).view();
    }

    /// The same type, with other children.
    [[nodiscard]] column_parts nested(column_view c, column_view want, column_path const& path) {
        auto& n = nodes_.emplace_back();
        auto const id = c.type().id;
        auto const used = id == type_id::map ? used_by(c, path) : extent{};
        if (id == type_id::map) {
            add_validity(n, c);
            add_offsets(n, c, used, false, path);
        } else if (id == type_id::structure || id == type_id::fixed_size_list) {
            add_validity(n, c);
        } else {
            n.buffers.assign(c.buffers().begin(), c.buffers().end());
            if (id == type_id::sparse_union) n.buffers[0] = {data_of(c, 0, 1), c.length()};
        }
        for (int i = 0; i < c.child_count(); ++i) {
            auto child = child_of(c, i);
            if (c.length() == 0 && slices_children(id)) child = {child.node(), child.offset(), 0};
            else if (slices_children(id)) child = part_of_child(c, i, c.offset());
            else if (id == type_id::map) child = {child.node(), child.offset() + used.begin, used.end - used.begin};
            column_path const its{path, id, i, child.name()};
            n.below.push_back(convert(child, child_of(want, i), its));
        }
        auto out = parts_of(n, c, c.format());
        if (id == type_id::dense_union || id == type_id::run_end_encoded) out.offset = c.offset();
        return out;
    }

    // ---- dictionaries ----

    [[nodiscard]] column_parts decode(column_view c, column_view want, column_path const& path) {
        auto const values = hold(convert_node(dictionary_of(c), want, path.dictionary()));
        auto const at = positions(c, values.length(), path);
        auto const type = values.type();
        auto const layout = values.layout();
        auto& n = nodes_.emplace_back();
        auto out = parts_of(n, c, values.format());
        if (layout.has_validity()) take_validity(n, values, at);
        if (type.id == type_id::boolean) {
            bitmap_view const from{values.buffers()[1].data, values.offset(), values.length()};
            pack(add(n, bitmap_bytes(out.length), 1), at, [&](std::int64_t k) { return k >= 0 && from[k]; });
        } else if (is_view(type.id)) {
            take_items(n, values, 16, at);
            n.buffers.insert(n.buffers.end(), values.buffers().begin() + 2, values.buffers().end());
        } else if (is_text_or_bytes(type.id)) {
            add_text(n, values, out.length, is_large(values), path,
                     [&](std::int64_t i) { return at[static_cast<std::size_t>(i)]; });
        } else if (layout.buffer_count == 2 && layout.buffers[1].kind == buffer_kind::data &&
                   !values.has_dictionary()) {
            take_items(n, values, item_bits(type) / 8, at);
        } else if (type.id != type_id::null) {
            // Nulls get any item.
            bool const has_nulls = std::ranges::any_of(at, [](std::int64_t k) { return k < 0; });
            if (has_nulls && (values.length() == 0 || !layout.has_validity()))
                refuse(errc::dtype, path,
                       message{"format "} << values.name_of_format() << " cannot represent its nulls without the "
                                          << "dictionary",
                       ": keep the dictionary");
            std::vector<column_view> items;
            for (auto const k : at)
                items.emplace_back(values.node(), values.offset() + (std::max<std::int64_t>)(k, 0), 1);
            if (items.empty()) items.emplace_back(values.node(), values.offset(), 0);
            out = unchanged(join(items));
            n.buffers.insert(n.buffers.end(), out.buffers.begin() + layout.has_validity(), out.buffers.end());
        }
        out.name = c.name();
        out.null_count = type.id == type_id::null ? c.length() : -1;
        out.buffers = n.buffers;
        out.flags =
            (c.flags() | (dictionary_of(c).flags() & abi::arrow_flag::nullable)) & ~abi::arrow_flag::dictionary_ordered;
        out.metadata = c.metadata();
        return out;
    }
    /// The indices of a dictionary-encoded column.
    [[nodiscard]] indices positions(column_view c, std::int64_t count, column_path const& path) const {
        auto const valid = validity(c);
        static_cast<void>(bytes_of(c.length(), sizeof(std::int64_t)));
        indices at(static_cast<std::size_t>(c.length()), -1);
        with_integer(c.type().id, [&]<class T>(T) {
            auto const* const from = data_of(c, 1, sizeof(T));
            for (std::int64_t i = 0; i < c.length(); ++i) {
                if (!valid[i]) continue;
                auto const value = load<T>(from, i);
                if (std::cmp_less(value, 0) || std::cmp_greater_equal(value, count))
                    refuse_bad(path, message{"item "} << i << " has an index outside of its dictionary of " << count
                                                      << " values");
                at[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(value);
            }
        });
        return at;
    }
    /// A bit for each position.
    template <class F>
    static void pack(std::byte* to, indices const& at, F f) {
        for (std::size_t i = 0; i < at.size(); i += 8) {
            unsigned byte = 0;
            for (std::size_t k = i; k < at.size() && k < i + 8; ++k) byte |= unsigned{f(at[k])} << (k - i);
            to[i / 8] = static_cast<std::byte>(byte);
        }
    }
    void take_validity(node& n, column_view c, indices const& at) {
        auto const valid = validity(c);
        if (valid.is_all_set() && std::ranges::all_of(at, [](std::int64_t k) { return k >= 0; }))
            return n.buffers.push_back({});
        pack(add(n, bitmap_bytes(static_cast<std::int64_t>(at.size())), 1), at,
             [&](std::int64_t k) { return k >= 0 && valid[k]; });
    }
    void take_items(node& n, column_view c, std::int64_t width, indices const& at) {
        auto* const to = add(n, static_cast<std::int64_t>(at.size()), width);
        if (width == 0) return;
        auto const* const from = data_of(c, 1, width);
        auto const run = [&](auto bytes) {
            auto* out = to;
            for (auto const k : at) {
                if (k >= 0) std::memcpy(out, from + k * bytes, static_cast<std::size_t>(bytes));
                else std::memset(out, 0, static_cast<std::size_t>(bytes));
                out += bytes;
            }
        };
        if (width == 4 || width == 8 || width == 16 || width == 32) with_width(width, run);
        else run(width);
    }
    unconvertible those_;
    char const* api_;
    std::source_location where_;
    std::shared_ptr<holder> held_ = std::make_shared<holder>();
    std::deque<node> nodes_{};
};

FERRY_INLINE column convert_column(column const& c, column_view type, unconvertible those, char const* api,
                                   std::source_location where) {
    return conversion{those, api, where}.run(c, type);
}
FERRY_INLINE column convert_column(column const& c, std::string_view format, char const* api,
                                   std::source_location where) {
    auto const type = parse_format(format);
    if (!type) fail(errc::argument, api, message{"not a format of Arrow: pass one such as `U` or `+L`"}, where);
    column_node node;
    node.format = format;
    node.type = *type;
    return convert_column(c, column_view{node}, unconvertible::fails, api, where);
}

}  // namespace FERRY_NAMESPACE::detail
