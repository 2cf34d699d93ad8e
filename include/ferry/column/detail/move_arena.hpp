// ferry: moves a column that lies compact in one allocation: by one copy, and without a look at its values.
#pragma once

#include <ferry/base/checked.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/compaction.hpp>
#include <ferry/column/detail/tree.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/parts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// Bytes of a buffer that the node's items need; all that it has where only offsets tell.
[[nodiscard]] inline std::int64_t needed_of(column_node const& n, std::size_t buffer) noexcept {
    auto const layout = layout_of(n.type);
    if (buffer >= static_cast<std::size_t>(layout.buffer_count) || layout.buffers[buffer].kind == buffer_kind::bytes)
        return n.buffers[buffer].bytes;
    std::int64_t end = 0, needed = 0;
    bool const fits = checked_add(n.offset, n.length, end) && needed_bytes(n.type, layout.buffers[buffer], end, needed);
    return fits ? needed : (std::numeric_limits<std::int64_t>::max)();
}

/// The part of its arena that a column occupies; empty if it is a slice, or if the arena is unknown.
struct arena_part {
    std::byte const* begin = nullptr;
    std::int64_t bytes = 0;  ///< with the padding behind the last buffer

    [[nodiscard]] static arena_part of(column_view c) noexcept {
        auto const& n = c.node();
        if (n.arena.empty() || c.offset() != 0 || c.length() != n.length) return {};
        extent e{static_cast<std::int64_t>(n.arena.size()), 0, 0, n.arena};
        e.include(n);
        auto const bytes = (e.end - e.begin + arena_alignment - 1) / arena_alignment * arena_alignment;
        // Slices need little of their buffers, and those of children may lie far away: then a compaction takes less.
        if (e.used == 0 || bytes > 2 * e.used + 4096) return {};
        return {n.arena.data() + e.begin, bytes};
    }

   private:
    struct extent {
        std::int64_t begin, end, used;
        std::span<std::byte const> arena;

        void include(column_node const& n) noexcept {
            for (std::size_t i = 0; i < n.buffers.size(); ++i) {
                auto const& b = n.buffers[i];
                if (b.data == nullptr || b.bytes <= 0) continue;
                auto const at = static_cast<std::byte const*>(b.data) - arena.data();
                begin = at < begin ? at : begin;
                end = at + b.bytes > end ? at + b.bytes : end;
                auto const needed = (std::min)(needed_of(n, i), b.bytes);  // of a slice less than is there
                used += (needed + arena_alignment - 1) / arena_alignment * arena_alignment;
            }
            for (auto const& child : n.children) include(child);
            if (n.dictionary != nullptr) include(*n.dictionary);
        }
    };
};

/// Whether no node names fewer items than its buffers hold, as far as that can be seen without a look at them.
[[nodiscard]] inline bool has_no_slices(column_node const& n) noexcept {
    if (n.offset != 0) return false;
    for (std::size_t i = 0; i < n.buffers.size(); ++i)
        if (n.buffers[i].bytes > 0 && n.buffers[i].bytes != needed_of(n, i)) return false;
    std::int64_t const each = n.type.id == type_id::fixed_size_list ? n.type.width : 1;
    bool const is_aligned =
        n.type.id == type_id::structure || n.type.id == type_id::sparse_union || n.type.id == type_id::fixed_size_list;
    for (auto const& child : n.children) {
        std::int64_t items = 0;
        if (!has_no_slices(child) ||
            (is_aligned && (!checked_multiply(n.length, each, items) || child.length != items)))
            return false;
    }
    return n.dictionary == nullptr || has_no_slices(*n.dictionary);
}

/// A column as the source of a tree whose buffers lie as far from `to` as they did from `from`.
class moved_source {
   public:
    moved_source(column_view view, arena_part const& from, std::byte const* to) noexcept
        : view_{view}, from_{from}, to_{to} {}
    [[nodiscard]] std::string_view format() const noexcept { return view_.format(); }
    [[nodiscard]] std::string_view name() const noexcept { return view_.name(); }
    [[nodiscard]] std::string_view metadata() const noexcept { return view_.metadata(); }
    [[nodiscard]] std::int64_t flags() const noexcept { return view_.flags(); }
    [[nodiscard]] std::int64_t length() const noexcept { return view_.length(); }
    [[nodiscard]] std::int64_t null_count() const noexcept { return view_.known_null_count(); }
    [[nodiscard]] std::int64_t offset() const noexcept { return view_.offset(); }
    [[nodiscard]] std::size_t buffer_count() const noexcept { return view_.buffers().size(); }
    [[nodiscard]] column_buffer buffer(std::size_t i) const noexcept {
        auto const b = view_.buffers()[i];
        if (b.data == nullptr) return {};
        return {b.bytes <= 0 ? to_ : to_ + (static_cast<std::byte const*>(b.data) - from_.begin), b.bytes};
    }
    [[nodiscard]] std::size_t child_count() const noexcept { return view_.node().children.size(); }
    [[nodiscard]] moved_source child(std::size_t i) const noexcept { return {view_.node().children[i], from_, to_}; }
    [[nodiscard]] bool has_dictionary() const noexcept { return view_.has_dictionary(); }
    [[nodiscard]] moved_source dictionary() const { return {view_.dictionary(), from_, to_}; }

   private:
    column_view view_;
    arena_part from_;
    std::byte const* to_;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
