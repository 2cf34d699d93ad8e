// A producer of Arrow structs, written without ferry; counts the releases.
#pragma once

#include <ferry/abi/arrow.hpp>
#include <ferry/column/column.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace support {

/// The structs of a tree of parts, for tests to modify. Owns all memory; a release only increments a counter.
class arrow_producer {
   public:
    explicit arrow_producer(ferry::column_parts const& parts) {
        make(parts, array, schema);
        children_released = 0;
    }
    arrow_producer(arrow_producer const&) = delete;
    arrow_producer& operator=(arrow_producer const&) = delete;

    ArrowArray array{};
    ArrowSchema schema{};
    /// Releases of the roots, by the consumer, and of the children, by the roots.
    int arrays_released = 0, schemas_released = 0, children_released = 0;

    /// Whether the caller still owns both and nothing was released.
    [[nodiscard]] bool is_untouched() const {
        return array.release && schema.release && arrays_released == 0 && schemas_released == 0;
    }
    [[nodiscard]] bool is_taken() const {
        return !array.release && !schema.release && arrays_released == 0 && schemas_released == 1;
    }

   private:
    struct node {
        std::string format, name, metadata;
        std::vector<void const*> buffers;
        std::vector<ArrowArray*> arrays;
        std::vector<ArrowSchema*> schemas;
        ArrowArray array{};
        ArrowSchema schema{};
    };

    void make(ferry::column_parts const& parts, ArrowArray& a, ArrowSchema& s) {
        auto& kept = nodes_.emplace_back();
        kept.format = parts.format, kept.name = parts.name, kept.metadata = parts.metadata;
        for (auto const& b : parts.buffers) kept.buffers.push_back(b.data);
        for (auto const& child : parts.children) {
            auto [array_below, schema_below] = make_below(child);
            kept.arrays.push_back(array_below), kept.schemas.push_back(schema_below);
        }
        s.format = kept.format.c_str(), s.name = parts.name.empty() ? nullptr : kept.name.c_str();
        s.metadata = parts.metadata.empty() ? nullptr : kept.metadata.data();
        s.flags = parts.flags;
        a.length = parts.length, a.null_count = parts.null_count, a.offset = parts.offset;
        a.n_buffers = static_cast<std::int64_t>(kept.buffers.size());
        a.buffers = kept.buffers.empty() ? nullptr : kept.buffers.data();
        a.n_children = s.n_children = static_cast<std::int64_t>(kept.arrays.size());
        a.children = kept.arrays.empty() ? nullptr : kept.arrays.data();
        s.children = kept.schemas.empty() ? nullptr : kept.schemas.data();
        if (parts.dictionary != nullptr) {
            auto [array_below, schema_below] = make_below(*parts.dictionary);
            a.dictionary = array_below, s.dictionary = schema_below;
        }
        a.private_data = s.private_data = this;
        a.release = [](ArrowArray* p) { release(*p, &arrow_producer::array, &arrow_producer::arrays_released); };
        s.release = [](ArrowSchema* p) { release(*p, &arrow_producer::schema, &arrow_producer::schemas_released); };
    }
    [[nodiscard]] std::pair<ArrowArray*, ArrowSchema*> make_below(ferry::column_parts const& parts) {
        auto& kept = nodes_.emplace_back();
        make(parts, kept.array, kept.schema);
        kept.array.release = [](ArrowArray* p) {
            release(*p, &arrow_producer::array, &arrow_producer::children_released);
        };
        kept.schema.release = [](ArrowSchema* p) {
            release(*p, &arrow_producer::schema, &arrow_producer::children_released);
        };
        return {&kept.array, &kept.schema};
    }
    template <class Struct>
    static void release(Struct& s, Struct arrow_producer::*, int arrow_producer::* count) {
        ++(static_cast<arrow_producer*>(s.private_data)->*count);
        for (std::int64_t i = 0; i < s.n_children; ++i)
            if (s.children[i]->release) s.children[i]->release(s.children[i]);
        if (s.dictionary != nullptr && s.dictionary->release) s.dictionary->release(s.dictionary);
        s.release = nullptr;
    }

    std::deque<node> nodes_;
};

/// A column of each format, of `length` zero items; all share the same memory.
class every_type {
   public:
    static constexpr std::string_view flat[] = {
        "n",   "b",   "c",   "C",        "s",          "S",      "i",          "I",           "l",
        "L",   "e",   "f",   "g",        "z",          "Z",      "u",          "U",           "vz",
        "vu",  "w:3", "w:0", "d:9,2,32", "d:18,-2,64", "d:38,2", "d:38,2,128", "d:76,10,256", "tdD",
        "tdm", "tts", "ttm", "ttu",      "ttn",        "tss:",   "tsm:UTC",    "tsu:+01:00",  "tsn:Europe/Zurich",
        "tDs", "tDm", "tDu", "tDn",      "tiM",        "tiD",    "tin"};
    static constexpr std::string_view nested[] = {"+l", "+L", "+vl",     "+vL",     "+w:2",
                                                  "+s", "+m", "+ud:0,1", "+us:4,5", "+r"};

    /// All formats, nested in every other format; each has offset `offset`.
    template <class F>
    void for_each(std::int64_t length, std::int64_t offset, F f) {
        for (auto const format : flat) {
            auto const leaf = column(format, length, offset);
            f(leaf);
            for (auto const outer : nested) {
                ferry::column_parts below[2], entries[1];
                f(around(outer, leaf, length, below, entries));
            }
        }
        auto const values = column("u", length, offset);
        for (auto const index : {"c", "C", "s", "S", "i", "I", "l", "L"}) {
            auto parts = column(index, length, offset);
            parts.dictionary = &values;
            parts.flags = 3;
            f(parts);
        }
    }
    [[nodiscard]] ferry::column_parts column(std::string_view format, std::int64_t length, std::int64_t offset) {
        auto const type = *ferry::parse_format(format);
        auto const layout = ferry::layout_of(type);
        auto& buffers =
            kept_.emplace_back(static_cast<std::size_t>(layout.buffer_count), ferry::column_buffer{zeros_.data(), -1});
        if (layout.is_variadic) buffers.push_back({zeros_.data(), 9}), buffers.push_back({lengths_, 8});
        return {.format = format,
                .name = "leaf",
                .length = length,
                .null_count = type.id == ferry::type_id::null ? length : -1,
                .offset = offset,
                .buffers = buffers,
                .metadata = metadata_};
    }

   private:
    [[nodiscard]] ferry::column_parts around(std::string_view format, ferry::column_parts const& leaf,
                                             std::int64_t length, ferry::column_parts (&below)[2],
                                             ferry::column_parts (&entries)[1]) {
        auto outer = column(format, length / 2, 0);
        outer.name = "outer";
        if (outer.buffers.empty() || ferry::layout_of(*ferry::parse_format(format)).has_validity() == false)
            outer.null_count = 0;
        below[0] = below[1] = leaf;
        below[1].name = "other";
        auto count = std::size_t{1};
        if (format == "+s" || format[1] == 'u') count = 2;
        if (format == "+r") below[0] = column("s", length / 2 + 1, 0), below[0].null_count = 0, count = 2;
        if (format == "+m") {
            entries[0] = column("+s", length, 0);
            entries[0].children = {below, 2};
            outer.children = {entries, 1};
        } else {
            outer.children = {below, count};
        }
        return outer;
    }

    std::deque<std::vector<ferry::column_buffer>> kept_;
    std::vector<std::uint64_t> zeros_ = std::vector<std::uint64_t>(4096);
    std::int64_t lengths_[1] = {9};
    std::string metadata_{"\1\0\0\0\1\0\0\0k\2\0\0\0vv", 15};
};

}  // namespace support
