// ferry: which nodes of a tree are slices of one another: what they have in common need be written once.
#pragma once

#include <ferry/column/detail/unify.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>  // a hash of formats
#include <string_view>
#include <utility>
#include <vector>  // as many nodes as the column has

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// Items of the memory that a node names, counted from the first.
struct stored_items {
    column_node const* node = nullptr;
    std::int64_t begin = 0, end = 0;
    bool is_shared = false;  ///< they are what slices were found to have together

    [[nodiscard]] bool contains(stored_items const& o) const noexcept { return begin <= o.begin && o.end <= end; }
};

/// How items lie in the buffers of a node without children: types with the same number differ in their names alone. 0:
/// ask the format.
[[nodiscard]] inline std::int64_t item_layout(column_node const& n) noexcept {
    if (!n.children.empty() || n.dictionary != nullptr) return 0;
    switch (n.type.id) {
        case type_id::string:
        case type_id::binary: return -1;
        case type_id::large_string:
        case type_id::large_binary: return -2;
        case type_id::string_view:
        case type_id::binary_view: return -3;
        default: return item_bits(n.type);
    }
}

/// Whether items of the same number are the same bytes in both nodes, however many each has.
[[nodiscard]] inline bool has_same_items(column_node const& a, column_node const& b) noexcept {
    bool same = a.format == b.format || (item_layout(a) != 0 && item_layout(a) == item_layout(b));
    same = same && std::ranges::equal(a.buffers, b.buffers, {}, &column_buffer::data, &column_buffer::data) &&
           a.children.size() == b.children.size() && (a.dictionary == nullptr) == (b.dictionary == nullptr);
    for (std::size_t i = 0; same && i < a.children.size(); ++i) same = has_same_storage(a.children[i], b.children[i]);
    return same && (a.dictionary == nullptr || has_same_storage(*a.dictionary, *b.dictionary));
}

/// A number that nodes with the same items have in common, and others hardly ever; 0 for those that name no memory.
class items_key {
   public:
    [[nodiscard]] static std::uint64_t of(column_node const& n) noexcept {
        items_key k;
        k.add(n, false);
        return k.has_data_ ? k.value_ | 1 : 0;
    }

   private:
    void add(std::uint64_t x) noexcept {
        value_ = (value_ ^ x) * 0x9e37'79b9'7f4a'7c15U;
        value_ ^= value_ >> 32;
    }
    void add(column_node const& n, bool is_whole) noexcept {
        auto const layout = is_whole ? 0 : item_layout(n);
        add(layout != 0 ? static_cast<std::uint64_t>(layout) : std::hash<std::string_view>{}(n.format));
        if (is_whole) add(static_cast<std::uint64_t>(n.offset)), add(static_cast<std::uint64_t>(n.length));
        for (auto const& b : n.buffers) {
            add(reinterpret_cast<std::uintptr_t>(b.data));
            has_data_ = has_data_ || b.data != nullptr;
        }
        for (auto const& child : n.children) add(child, true);
        if (n.dictionary != nullptr) add(*n.dictionary, true);
    }

    std::uint64_t value_ = 0;
    bool has_data_ = false;
};

/// Finds slices that overlap. Takes the nodes of a tree, and then says for each which larger part of its memory it lies
/// in.
class shared_slices {
   public:
    void note(stored_items const& items) {
        if (auto const key = items_key::of(*items.node); key != 0) noted_.push_back({key, items});
    }
    /// Joins what was noted since the last time. False when that tells nothing new.
    [[nodiscard]] bool find() {
        std::ranges::sort(noted_, {}, &entry::place);
        found_.clear();
        bool is_new = false;
        for (auto at = noted_.begin(); at != noted_.end();) {
            auto all = at->items;
            bool is_joined = false;
            auto end = at + 1;
            for (; end != noted_.end() && end->key == at->key && end->items.begin < all.end &&
                   has_same_items(*all.node, *end->items.node);
                 ++end) {
                is_joined = true;
                all.is_shared = all.is_shared || end->items.is_shared;
                // Whose children reach so far.
                if (end->items.end > all.end) all.end = end->items.end, all.node = end->items.node;
            }
            is_new |= is_joined;
            all.is_shared = all.is_shared || is_joined;
            if (all.is_shared) found_.push_back({at->key, all});
            at = end;
        }
        noted_.clear();
        return is_new;
    }
    /// The number of the part that items lie in, from 0; -1: in none, and they are noted.
    [[nodiscard]] std::ptrdiff_t part_of(stored_items const& items) {
        auto const key = items_key::of(*items.node);
        if (key == 0) return -1;
        // Parts of one memory lie one after the other.
        auto const after = std::ranges::upper_bound(found_, std::pair{key, items.begin}, {}, &entry::place);
        if (after != found_.begin()) {
            auto const& e = *(after - 1);
            if (e.key == key && e.items.contains(items) && has_same_items(*e.items.node, *items.node))
                return after - 1 - found_.begin();
        }
        noted_.push_back({key, items});
        return -1;
    }
    [[nodiscard]] stored_items const& part(std::ptrdiff_t i) const noexcept {
        return found_[static_cast<std::size_t>(i)].items;
    }
    [[nodiscard]] std::size_t count() const noexcept { return found_.size(); }

   private:
    struct entry {
        std::uint64_t key;
        stored_items items;

        [[nodiscard]] std::pair<std::uint64_t, std::int64_t> place() const noexcept { return {key, items.begin}; }
    };

    std::vector<entry> noted_, found_;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
