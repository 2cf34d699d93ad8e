// Random columns of every type, with offsets, nulls, and invalid data where nothing may be read; and their values as
// text.
#pragma once

#include <ferry/column.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// Item `i` of a column as text; values of null items are not included.
inline std::string shown(ferry::column_view c, std::int64_t i) {
    using ferry::type_id;
    auto const id = c.type().id;
    auto const at = c.offset() + i;
    auto const byte = [&](std::size_t buffer, std::int64_t n) {
        return static_cast<unsigned char const*>(c.buffers()[buffer].data) + n;
    };
    auto const load = [&](std::size_t buffer, std::int64_t n, std::int64_t width) {
        std::int64_t value = 0;
        std::memcpy(&value, byte(buffer, n * width), static_cast<std::size_t>(width));
        return width == 4 ? static_cast<std::int32_t>(value) : width == 2 ? static_cast<std::int16_t>(value) : value;
    };
    auto const hex = [](unsigned char const* p, std::int64_t n) {
        std::string text;
        for (std::int64_t k = 0; k < n; ++k)
            text += "0123456789abcdef"[p[k] / 16], text += "0123456789abcdef"[p[k] % 16];
        return text;
    };
    auto const items = [&](ferry::column_view child, std::int64_t begin, std::int64_t n) {
        std::string text{"["};
        for (std::int64_t k = 0; k < n; ++k) text.append(shown(child, begin + k)).append(" ");
        return text.append("]");
    };
    if (id == type_id::null || !c.validity()[i]) return "null";
    switch (id) {
        case type_id::boolean: return (*byte(1, at / 8) >> at % 8 & 1) != 0 ? "true" : "false";
        case type_id::string:
        case type_id::binary: return hex(byte(2, load(1, at, 4)), load(1, at + 1, 4) - load(1, at, 4));
        case type_id::large_string:
        case type_id::large_binary: return hex(byte(2, load(1, at, 8)), load(1, at + 1, 8) - load(1, at, 8));
        case type_id::string_view:
        case type_id::binary_view: {
            auto const n = load(1, 4 * at, 4);
            return n <= 12 ? hex(byte(1, 16 * at + 4), n)
                           : hex(byte(static_cast<std::size_t>(2 + load(1, 4 * at + 2, 4)), load(1, 4 * at + 3, 4)), n);
        }
        case type_id::list:
        case type_id::map: return items(c.child(0), load(1, at, 4), load(1, at + 1, 4) - load(1, at, 4));
        case type_id::large_list: return items(c.child(0), load(1, at, 8), load(1, at + 1, 8) - load(1, at, 8));
        case type_id::list_view: return items(c.child(0), load(1, at, 4), load(2, at, 4));
        case type_id::large_list_view: return items(c.child(0), load(1, at, 8), load(2, at, 8));
        case type_id::fixed_size_list: return items(c.child(0), at * c.type().width, c.type().width);
        case type_id::structure: {
            std::string text{"{"};
            for (int k = 0; k < c.child_count(); ++k) text.append(shown(c.child(k), at)).append(",");
            return text.append("}");
        }
        case type_id::sparse_union:
        case type_id::dense_union: {
            // The generator's ids: child k has id 2 k + 1.
            int const child = (*byte(0, at) - 1) / 2;
            return std::to_string(child).append(":").append(
                shown(c.child(child), id == type_id::dense_union ? load(1, at, 4) : at));
        }
        case type_id::run_end_encoded: {
            auto const ends = c.child(0);
            auto const width = ferry::item_bits(ends.type()) / 8;
            std::int64_t run = 0;
            for (;; ++run) {
                std::int64_t end = 0;
                std::memcpy(&end,
                            static_cast<unsigned char const*>(ends.buffers()[1].data) + (ends.offset() + run) * width,
                            static_cast<std::size_t>(width));
                if (end > at) return shown(c.child(1), run);
            }
        }
        default: {
            auto const width = ferry::item_bits(c.type()) / 8;
            if (!c.has_dictionary()) return hex(byte(1, at * width), width);
            std::int64_t index = 0;
            std::memcpy(&index, byte(1, at * width), static_cast<std::size_t>(width));
            return std::string{"#"}.append(shown(c.dictionary(), index));
        }
    }
}
inline std::vector<std::string> shown(ferry::column_view c) {
    std::vector<std::string> all;
    for (std::int64_t i = 0; i < c.length(); ++i) all.push_back(shown(c, i));
    return all;
}

/// Makes columns, which own their memory.
class column_maker {
   public:
    explicit column_maker(unsigned seed) : random_{seed} {}

    /// Formats without children; nested formats are made of these.
    static constexpr char const* leaves[] = {
        "n",          "b",       "c",          "C",   "s",   "S",   "i",   "I",         "l",   "L",
        "e",          "f",       "g",          "z",   "Z",   "vz",  "u",   "U",         "vu",  "d:7,2,32",
        "d:12,-3,64", "d:5,2",   "d:60,3,256", "w:3", "w:0", "tdD", "tdm", "tts",       "ttm", "ttu",
        "ttn",        "tss:UTC", "tsn:",       "tDs", "tiM", "tiD", "tin", "dictionary"};
    static constexpr char const* nested[] = {"+l", "+L", "+vl",     "+vL",     "+w:2", "+w:0",
                                             "+s", "+m", "+ud:1,3", "+us:1,3", "+r"};

    [[nodiscard]] std::int64_t below(std::int64_t n) {
        return n <= 0 ? 0 : static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
    }

    /// A column of the format; children are leaves, or nested columns down to `depth`.
    [[nodiscard]] ferry::column make(std::string const& format, std::int64_t length, int depth,
                                     std::int64_t offset = -1) {
        store_ = std::make_shared<store>();
        auto const* const parts = make_parts(format, length, depth, offset);
        return ferry::make_column(*parts, store_);
    }
    [[nodiscard]] std::string any_format(int depth) {
        auto const leaf_count = static_cast<std::int64_t>(std::size(leaves)),
                   nested_count = static_cast<std::int64_t>(std::size(nested));
        if (depth > 1 && below(2) == 0) return nested[below(nested_count)];
        return leaves[below(leaf_count)];
    }

   private:
    struct store {
        std::deque<std::vector<unsigned char>> bytes;
        std::deque<std::string> text;
        std::deque<std::vector<ferry::column_buffer>> buffers;
        std::deque<std::vector<ferry::column_parts>> parts;
    };
    [[nodiscard]] std::vector<unsigned char>& add(std::int64_t bytes) {
        // The exact size, so that AddressSanitizer detects reads out of bounds.
        auto& b = store_->bytes.emplace_back(static_cast<std::size_t>(bytes));
        for (auto& one : b) one = static_cast<unsigned char>(random_());
        return b;
    }
    [[nodiscard]] ferry::column_buffer buffer(std::vector<unsigned char> const& b) {
        return {b.empty() ? reinterpret_cast<void const*>(8) : b.data(),
                below(3) == 0 ? -1 : static_cast<std::int64_t>(b.size())};
    }
    template <class T>
    [[nodiscard]] ferry::column_buffer numbers(std::vector<std::int64_t> const& values) {
        auto& b = add(static_cast<std::int64_t>(values.size() * sizeof(T)));
        for (std::size_t i = 0; i < values.size(); ++i) {
            T const value = static_cast<T>(values[i]);
            std::memcpy(b.data() + i * sizeof(T), &value, sizeof(T));
        }
        return buffer(b);
    }
    [[nodiscard]] ferry::column_buffer numbers(std::vector<std::int64_t> const& values, bool is_wide) {
        return is_wide ? numbers<std::int64_t>(values) : numbers<std::int32_t>(values);
    }

    [[nodiscard]] ferry::column_parts const* make_parts(std::string format, std::int64_t length, int depth,
                                                        std::int64_t offset = -1) {
        using ferry::type_id;
        if (offset < 0) offset = below(3) == 0 ? 0 : below(18);
        bool const is_dictionary = format == "dictionary";
        if (is_dictionary) format = std::string{"cCsSiIlL"[below(8)]};
        if (format == "+r") offset = below(18);
        auto const& text = store_->text.emplace_back(format);
        auto& parts = store_->parts.emplace_back(1);
        auto const type = *ferry::parse_format(text);
        auto const layout = ferry::layout_of(type);
        auto const end = offset + length;
        auto& buffers = store_->buffers.emplace_back();
        if (layout.has_validity()) {
            auto const pattern = below(4);
            if (pattern == 0) {
                buffers.push_back({});
            } else {
                auto& bits = add(ferry::bitmap_bytes(end));
                if (pattern == 1) std::ranges::fill(bits, static_cast<unsigned char>(0xff));
                if (pattern == 2) std::ranges::fill(bits, static_cast<unsigned char>(0));
                buffers.push_back(buffer(bits));
            }
        }
        auto const is_valid = [&](std::int64_t i) {
            return buffers[0].data == nullptr ||
                   (static_cast<unsigned char const*>(buffers[0].data)[i / 8] >> i % 8 & 1) != 0;
        };
        std::vector<ferry::column_parts> children;
        auto const child = [&](std::int64_t items, std::string f = {}) {
            children.push_back(*make_parts(f.empty() ? any_format(depth - 1) : f, items + below(3), depth - 1));
        };
        // Offsets of `end` items, from a random start; invalid before the column's offset, where nothing may be read.
        auto const ends = [&](std::int64_t& total) {
            std::vector<std::int64_t> all;
            std::int64_t at = below(5);
            for (std::int64_t i = 0; i <= end; ++i) all.push_back(i < offset ? -7 : (at += i == offset ? 0 : below(4)));
            total = at;
            return all;
        };
        std::int64_t total = 0;
        switch (type.id) {
            case type_id::null: break;
            case type_id::string:
            case type_id::binary:
            case type_id::large_string:
            case type_id::large_binary: {
                buffers.push_back(
                    numbers(ends(total), type.id == type_id::large_string || type.id == type_id::large_binary));
                buffers.push_back(buffer(add(total)));
                break;
            }
            case type_id::string_view:
            case type_id::binary_view: {
                auto& views = add(16 * end);
                std::vector<std::int64_t> lengths;
                for (std::int64_t k = below(4); k > 0; --k) lengths.push_back(13 + below(100));
                for (std::int64_t i = offset; i < end; ++i) {
                    if (!is_valid(i)) continue;
                    std::int32_t view[4] = {static_cast<std::int32_t>(below(13)), 0, 0, 0};
                    if (!lengths.empty() && below(2) == 0) {
                        view[2] = static_cast<std::int32_t>(below(static_cast<std::int64_t>(lengths.size())));
                        auto const there = lengths[static_cast<std::size_t>(view[2])];
                        view[0] = static_cast<std::int32_t>(13 + below(there - 12));
                        view[3] = static_cast<std::int32_t>(below(there - view[0] + 1));
                    }
                    std::memcpy(views.data() + 16 * i, view, sizeof view);
                }
                buffers.push_back(buffer(views));
                for (auto const n : lengths) buffers.push_back(buffer(add(n)));
                buffers.push_back(numbers<std::int64_t>(lengths));
                break;
            }
            case type_id::list:
            case type_id::large_list:
            case type_id::map: {
                buffers.push_back(numbers(ends(total), type.id == type_id::large_list));
                child(total, type.id == type_id::map ? "+s" : "");
                break;
            }
            case type_id::list_view:
            case type_id::large_list_view: {
                std::vector<std::int64_t> starts, sizes;
                auto const items = 5 + below(20);
                for (std::int64_t i = 0; i < end; ++i) {
                    bool const garbage = i < offset || !is_valid(i);
                    sizes.push_back(garbage ? -9 : below(4));
                    starts.push_back(garbage ? 1 << 30 : below(items - sizes.back()));
                }
                buffers.push_back(numbers(starts, type.id == type_id::large_list_view));
                buffers.push_back(numbers(sizes, type.id == type_id::large_list_view));
                child(items);
                break;
            }
            case type_id::fixed_size_list: child(end * type.width); break;
            case type_id::structure:
                for (std::int64_t k = depth > 0 ? 2 : 0; k > 0; --k) child(end);
                break;
            case type_id::sparse_union:
            case type_id::dense_union: {
                auto const each = 3 + below(9);
                auto& ids = add(end);
                std::vector<std::int64_t> starts(static_cast<std::size_t>(end), 0);
                for (std::int64_t i = 0; i < end; ++i) {
                    ids[static_cast<std::size_t>(i)] = static_cast<unsigned char>(1 + 2 * below(2));
                    starts[static_cast<std::size_t>(i)] = each * i / std::max<std::int64_t>(end, 1);
                }
                buffers.push_back(buffer(ids));
                if (type.id == type_id::dense_union) buffers.push_back(numbers<std::int32_t>(starts));
                child(type.id == type_id::dense_union ? each : end);
                child(type.id == type_id::dense_union ? each : end);
                break;
            }
            case type_id::run_end_encoded: {
                std::vector<std::int64_t> run_ends;
                auto const pad = below(4);
                for (std::int64_t at = 0; at < end;) run_ends.push_back(at += 1 + below(4));
                auto const runs = static_cast<std::int64_t>(run_ends.size());
                run_ends.insert(run_ends.begin(), static_cast<std::size_t>(pad), -3);
                auto const width = below(3);
                auto& ends_buffers = store_->buffers.emplace_back();
                ends_buffers = {{},
                                width == 0   ? numbers<std::int16_t>(run_ends)
                                : width == 1 ? numbers<std::int32_t>(run_ends)
                                             : numbers<std::int64_t>(run_ends)};
                children.push_back({.format = width == 0   ? "s"
                                              : width == 1 ? "i"
                                                           : "l",
                                    .name = "run_ends",
                                    .length = runs,
                                    .offset = pad,
                                    .buffers = ends_buffers});
                child(runs);
                break;
            }
            default: {
                if (!is_dictionary) {
                    auto const bits = ferry::item_bits(type);
                    buffers.push_back(buffer(add(bits == 1 ? ferry::bitmap_bytes(end) : end * bits / 8)));
                    break;
                }
                auto const* const dictionary = make_parts(any_format(depth - 1), 1 + below(9), depth - 1);
                std::vector<std::int64_t> indices;
                for (std::int64_t i = 0; i < end; ++i)
                    indices.push_back(is_valid(i) && i >= offset ? below(dictionary->length) : 111);
                auto const width = ferry::item_bits(type) / 8;
                buffers.push_back(width == 1   ? numbers<std::int8_t>(indices)
                                  : width == 2 ? numbers<std::int16_t>(indices)
                                  : width == 4 ? numbers<std::int32_t>(indices)
                                               : numbers<std::int64_t>(indices));
                parts[0].dictionary = dictionary;
            }
        }
        auto& kept = store_->parts.emplace_back(std::move(children));
        static constexpr char const* names[] = {"first", "second"};
        for (std::size_t i = 0; i < kept.size(); ++i)
            if (kept[i].name.empty()) kept[i].name = names[i % 2];
        parts[0].format = text;
        parts[0].length = length;
        parts[0].offset = offset;
        parts[0].buffers = buffers;
        parts[0].children = kept;
        return parts.data();
    }

    std::mt19937_64 random_;
    std::shared_ptr<store> store_;
};

/// A column of these values, which it owns, with the names and metadata of `parts`.
[[nodiscard]] inline ferry::column int32s(std::vector<std::int32_t> values, ferry::column_parts parts = {.format = "i"},
                                          ferry::device on = ferry::cpu) {
    auto const owner = std::make_shared<std::vector<std::int32_t>>(std::move(values));
    parts.length = static_cast<std::int64_t>(owner->size());
    ferry::column_buffer const buffers[] = {{}, {owner->data(), 4 * parts.length}};
    parts.buffers = buffers;
    return ferry::make_column(parts, owner, on);
}

}  // namespace support
