// ferry: which nodes of a tree are slices of one another: what they have in common need be written once.
#pragma once

#include <ferry/column/detail/unify.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>  // an order of addresses
#include <span>
#include <utility>
#include <vector>  // as many nodes as the column has

namespace ferry::inline v0::detail {

/// Items of the memory that a node names, counted from the first.
struct stored_items {
    column_node const* node = nullptr;
    std::int64_t begin = 0, end = 0;
    bool is_shared = false;  ///< they are what slices were found to have together

    [[nodiscard]] bool contains(stored_items const& o) const noexcept { return begin <= o.begin && o.end <= end; }
};

/// Whether items of the same number are the same bytes in both nodes, however many each has.
[[nodiscard]] inline bool has_same_items(column_node const& a, column_node const& b) noexcept {
    auto const is_plain = [](column_node const& n) { return n.children.empty() && n.dictionary == nullptr && item_bits(n.type) > 0; };
    bool same = a.format == b.format || (is_plain(a) && is_plain(b) && item_bits(a.type) == item_bits(b.type));
    same = same && std::ranges::equal(a.buffers, b.buffers, {}, &column_buffer::data, &column_buffer::data) && a.children.size() == b.children.size() &&
           (a.dictionary == nullptr) == (b.dictionary == nullptr);
    for (std::size_t i = 0; same && i < a.children.size(); ++i) same = has_same_storage(a.children[i], b.children[i]);
    return same && (a.dictionary == nullptr || has_same_storage(*a.dictionary, *b.dictionary));
}

/// Finds slices that overlap. Takes the nodes of a tree, and then says for each which larger part of its memory it lies in.
class shared_slices {
   public:
    void note(stored_items const& items) {
        if (auto const* const key = first_data(*items.node); key != nullptr) noted_.push_back({key, items});
    }
    /// Joins what was noted since the last time. False when that tells nothing new.
    [[nodiscard]] bool find() {
        std::ranges::sort(noted_, [](entry const& a, entry const& b) {
            return a.key != b.key ? std::less<>{}(a.key, b.key) : a.items.begin < b.items.begin;
        });
        found_.clear();
        bool is_new = false;
        for (auto at = noted_.begin(); at != noted_.end();) {
            auto const end = std::find_if(at, noted_.end(), [&](entry const& e) { return e.key != at->key; });
            is_new |= join({at, end});
            at = end;
        }
        noted_.clear();
        return is_new;
    }
    /// The number of the part that items lie in, from 0; none: -1.
    [[nodiscard]] std::ptrdiff_t part_of(stored_items const& items) const noexcept {
        if (found_.empty()) return -1;
        auto const* const key = first_data(*items.node);
        auto const by_key = [](entry const& a, void const* b) { return std::less<>{}(a.key, b); };
        for (auto i = std::lower_bound(found_.begin(), found_.end(), key, by_key); i != found_.end() && i->key == key; ++i)
            if (i->items.contains(items) && has_same_items(*i->items.node, *items.node)) return i - found_.begin();
        return -1;
    }
    [[nodiscard]] stored_items const& part(std::ptrdiff_t i) const noexcept { return found_[static_cast<std::size_t>(i)].items; }
    [[nodiscard]] std::size_t count() const noexcept { return found_.size(); }

   private:
    struct entry {
        void const* key;
        stored_items items;
    };
    struct cluster {
        stored_items items;
        bool is_new = false;
    };
    static constexpr std::size_t most_clusters = 16;  // of nodes that begin with the same buffer and have different ones behind it

    /// The first buffer that is there, by which nodes are told apart.
    [[nodiscard]] static void const* first_data(column_node const& n) noexcept {
        for (auto const& b : n.buffers)
            if (b.data != nullptr) return b.data;
        for (auto const& child : n.children)
            if (auto const* const data = first_data(child); data != nullptr) return data;
        return nullptr;
    }
    bool join(std::span<entry const> all) {
        bool is_new = false;
        std::vector<cluster> open;
        auto const close = [&](cluster& c) {
            if (c.is_new || c.items.is_shared) found_.push_back({all.front().key, c.items}), found_.back().items.is_shared = true;
            is_new |= c.is_new;
        };
        for (auto const& [key, items] : all) {
            auto const mine = std::ranges::find_if(open, [&](cluster const& c) { return has_same_items(*c.items.node, *items.node); });
            if (mine == open.end()) {
                if (open.size() < most_clusters) open.push_back({items});
                continue;
            }
            auto& c = *mine;
            if (items.begin >= c.items.end) {
                close(c);
                c = {items};
                continue;
            }
            c.is_new = true;
            c.items.is_shared = c.items.is_shared || items.is_shared;
            if (items.end > c.items.end) c.items.end = items.end, c.items.node = items.node;  // whose children reach so far
        }
        for (auto& c : open) close(c);
        return is_new;
    }

    std::vector<entry> noted_, found_;
};

}  // namespace ferry::inline v0::detail
