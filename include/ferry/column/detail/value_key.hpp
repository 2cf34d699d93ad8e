// ferry: the bytes of an item of a column as a key. Requires exceptions.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/load.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/value_reader.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/type.hpp>
#include <ferry/column/view.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>  // the key

namespace FERRY_NAMESPACE::detail {

/// Reports the errors of a value_reader for the items of one node.
struct node_thrower {
    char const* api;
    std::source_location where;
    column_path const* path;
};
[[noreturn]] FERRY_COLD inline void report_item(node_thrower r, column_view, std::int64_t i, char const* what) {
    fail(errc::bad_column, r.api, node_error(*r.path, message{"item "} << i << ": " << what), r.where);
}

/// Returns the number of the run that contains an item, counted from the first item of the buffers, or the number of
/// runs. The ends may have any values.
[[nodiscard]] inline std::int64_t find_run(column_view ends, std::int64_t item) noexcept {
    std::int64_t low = 0, high = ends.length();
    while (low < high) {
        auto const middle = low + (high - low) / 2;
        auto const end = with_integer(ends.type().id, [&]<class T>(T) {
            return static_cast<std::int64_t>(load<T>(ends.buffers()[1].data, ends.offset() + middle));
        });
        if (end > item) high = middle;
        else low = middle + 1;
    }
    return low;
}

/// The maximum number of bytes of a key that contains lists. The limit is needed because list views may refer to the
/// same items repeatedly, at each level.
inline constexpr std::size_t most_of_lists = std::size_t{1} << 26;

/// Appends the value of item `i`, such that two items of one type have equal keys if and only if they have the same
/// bytes, or are null. Because another process may change the column, each number is loaded once, and checked before
/// it is used.
/// \throws error  errc::bad_column: offsets, views, type ids, run ends or indices that are out of range
inline void append_key(std::string& key, column_view c, std::int64_t i, node_thrower r) {
    auto const id = c.type().id;
    auto const at = c.offset() + i;
    auto const append = [&](void const* p, std::size_t bytes) {
        if (bytes != 0) key.append(static_cast<char const*>(p), bytes);
    };
    auto const append_other = [&](column_view other, std::int64_t item) {  // an item of another column
        if (item < 0 || item >= other.length()) report_item(r, c, i, "it refers to an item that does not exist");
        append_key(key, other, item, r);
    };
    if (c.has_dictionary() && c.validity()[i])
        return append_other(dictionary_of(c), load_index(c.buffers()[1].data, at, id));
    if (id == type_id::run_end_encoded) return append_other(child_of(c, 1), find_run(child_of(c, 0), at));
    bool const is_null = id == type_id::null || !c.validity()[i];
    key.push_back(is_null ? '\0' : '\1');
    if (is_null) return;
    if (is_union(id)) {
        auto const type = load<std::uint8_t>(c.buffers()[0].data, at);
        int const child = type > 127 ? -1 : union_children{c.type()}.child[type];
        if (child < 0) report_item(r, c, i, "its type id is none of the union's");
        key.push_back(static_cast<char>(type));
        return append_other(child_of(c, child),
                            id == type_id::dense_union ? load<std::int32_t>(c.buffers()[1].data, at) : at);
    }
    if (id == type_id::structure) {
        for (int k = 0; k < c.child_count(); ++k) append_other(child_of(c, k), at);
    } else if (value_reader<column_view>::accepts(c.type())) {
        auto const items = value_reader<column_view>{c}.read(i, r);
        std::int64_t const count = items.length();
        append(&count, sizeof count);
        for (std::int64_t k = 0; k < count; ++k) {
            if (key.size() > most_of_lists) report_item(r, c, i, "it is too large for a value of a dictionary");
            append_key(key, items, k, r);
        }
    } else if (value_reader<std::span<std::byte const>>::accepts(c.type())) {
        auto const bytes = value_reader<std::span<std::byte const>>{c}.read(i, r);
        std::size_t const size = bytes.size();
        append(&size, sizeof size);
        append(bytes.data(), size);
    } else if (id == type_id::boolean) {
        key.push_back(bitmap_view{c.buffers()[1].data, at, 1}[0] ? '\1' : '\0');
    } else {
        auto const width = item_bits(c.type()) / 8;
        append(static_cast<std::byte const*>(c.buffers()[1].data) + at * width, static_cast<std::size_t>(width));
    }
}

/// Appends a key for the memory of a tree. Two columns of the same type with equal keys share all of their memory.
inline void append_identity(std::string& key, column_node const& n) {
    auto const append = [&](auto const& value) { key.append(reinterpret_cast<char const*>(&value), sizeof value); };
    append(n.length);
    append(n.offset);
    for (auto const& b : n.buffers) append(b.data);
    for (auto const& child : n.children) append_identity(key, child);
    if (n.dictionary != nullptr) append_identity(key, *n.dictionary);
}

}  // namespace FERRY_NAMESPACE::detail
