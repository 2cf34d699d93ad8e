// ferry: what is kept while a compaction is planned: the items of the sources that each node takes, and what was read
// of them. length: what all layouts share, with the lists that they write to.
#pragma once

#include <ferry/base/checked.hpp>
#include <ferry/column/detail/compaction.hpp>
#include <ferry/column/detail/fill.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <source_location>
#include <utility>
#include <vector>  // see compaction.hpp

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// Its rules are the planner's: see plan_compaction.hpp.
class compaction_state {
   protected:
    compaction_state(char const* api, std::source_location where) noexcept : api_{api}, where_{where} {}

    using step = fill_job::step;
    /// Items of a source.
    struct piece {
        column_node const* node = nullptr;
        std::int64_t offset = 0, length = 0;
        // Its layout's; then lengths of views, run ends, or the last offset of text.
        std::array<std::uint32_t, 4> ranges{nowhere, nowhere, nowhere, nowhere};

        /// Ranges begin with a whole byte of bits.
        [[nodiscard]] std::int64_t skip() const noexcept { return offset % 8; }
    };
    /// A node and the pieces that it is made of.
    struct work {
        std::uint32_t node = 0;
        std::size_t first = 0, count = 0;
    };
    struct extent {
        std::int64_t begin = 0, end = 0;
        [[nodiscard]] std::int64_t length() const noexcept { return end - begin; }
        void include(std::int64_t b, std::int64_t e) noexcept {
            bool const is_first = begin == end;
            begin = is_first ? b : (std::min)(begin, b);
            end = is_first ? e : (std::max)(end, e);
        }
    };
    /// What a buffer that is made of one piece is made of: step and width, addresses, offset and length.
    using identity = std::array<std::uint64_t, 6>;

    // ---- reading ----

    [[nodiscard]] std::uint32_t add_range(void const* data, std::int64_t begin, std::int64_t bytes) {
        if (bytes == 0) return nowhere;
        plan_.ranges.push_back({static_cast<std::byte const*>(data) + begin, bytes});
        return static_cast<std::uint32_t>(plan_.ranges.size() - 1);
    }
    void request(piece& p) {
        if (p.length == 0) return;
        auto const& n = *p.node;
        auto const layout = layout_of(n.type);
        bool const has_no_nulls = n.null_count.load(std::memory_order_relaxed) == 0;
        for (int i = 0; i < layout.buffer_count; ++i) {
            auto const kind = layout.buffers[i].kind;
            auto const* const data = n.buffers[static_cast<std::size_t>(i)].data;
            if (kind == buffer_kind::bytes || (kind == buffer_kind::validity && (data == nullptr || has_no_nulls)))
                continue;
            std::int64_t begin = 0, end = 0;
            if (!needed_bytes(n.type, layout.buffers[i], p.offset + p.length, end))
                refuse(p, message{"its size overflows"});
            static_cast<void>(needed_bytes(
                n.type, {kind == buffer_kind::offsets ? buffer_kind::starts : kind, layout.buffers[i].bits},
                p.offset - p.skip(), begin));
            p.ranges[static_cast<std::size_t>(i)] = add_range(data, begin, end - begin);
        }
        if (n.type.id == type_id::run_end_encoded) {
            auto const& ends = n.children[0];
            auto const width = item_bits(ends.type) / 8;
            p.ranges[3] = add_range(ends.buffers[1].data, ends.offset * width, ends.length * width);
        } else if (layout.buffer_count == 3 && layout.buffers[2].kind == buffer_kind::bytes && n.buffers[2].bytes < 0) {
            std::int64_t const width = layout.buffers[1].bits / 8;
            p.ranges[3] = add_range(n.buffers[1].data, (n.offset + n.length) * width, width);
        } else if (layout.is_variadic) {
            p.ranges[3] = add_range(n.buffers.back().data, 0, 8 * static_cast<std::int64_t>(n.buffers.size() - 3));
        }
    }
    [[nodiscard]] std::byte const* host(std::uint32_t range) const noexcept { return plan_.ranges[range].at; }
    /// Whether item `i` of the piece is valid.
    [[nodiscard]] bitmap_view validity(piece const& p) const noexcept {
        return {p.ranges[0] == nowhere ? nullptr : host(p.ranges[0]), p.skip(), p.length};
    }
    [[nodiscard]] std::int64_t load_item(std::uint32_t range, std::int64_t i, std::int32_t width) const noexcept {
        return width == 8   ? load<std::int64_t>(host(range), i)
               : width == 4 ? load<std::int32_t>(host(range), i)
                            : load<std::int16_t>(host(range), i);
    }

    // ---- writing ----

    [[nodiscard]] planned_node& node(work const& w) noexcept { return plan_.nodes[w.node]; }
    [[nodiscard]] piece const& at(work const& w, std::size_t i) const noexcept { return pieces_[w.first + i]; }
    /// A buffer of the node; one with the same identity is the same. False when it was there.
    [[nodiscard]] bool add_buffer(std::int64_t bytes, identity const* same, std::uint32_t& out) {
        out = static_cast<std::uint32_t>(plan_.buffers.size());
        plan_.buffers.push_back({.bytes = bytes});
        if (same == nullptr || bytes <= 0) return true;
        auto const [found, is_new] = known_.emplace(*same, out);
        if (!is_new) plan_.buffers.back().same = found->second;
        return is_new;
    }
    [[nodiscard]] static std::uint64_t address(piece const& p, std::size_t buffer) noexcept {
        return reinterpret_cast<std::uintptr_t>(p.node->buffers[buffer].data);
    }
    /// With `buffers` of the piece read, and its validity where it clears.
    [[nodiscard]] identity const* identify(work const& w, step kind, std::int64_t width, std::size_t buffer,
                                           bool reads_validity, std::size_t other = 99) {
        if (w.count != 1) return nullptr;
        auto const& p = at(w, 0);
        identity_ = {static_cast<std::uint64_t>(kind) << 40 | static_cast<std::uint64_t>(width),
                     address(p, buffer),
                     other == 99 ? 0 : address(p, other),
                     reads_validity && node(w).null_count > 0 ? address(p, 0) : 0,
                     static_cast<std::uint64_t>(p.offset),
                     static_cast<std::uint64_t>(p.length)};
        return &identity_;
    }
    [[nodiscard]] std::int64_t bytes_for(work const& w, std::int64_t items, std::int64_t width) {
        std::int64_t bytes = 0;
        if (!checked_multiply(items, width, bytes)) refuse(w.node, errc::overflow, message{"its bytes overflow"});
        return bytes;
    }
    void require_at_most(work const& w, std::int64_t value, std::int64_t most, char const* what) {
        if (value > most)
            refuse(w.node, errc::overflow,
                   message{"together it has "} << value << " " << what << ", and its type counts to " << most
                                               << ": use one with wider offsets");
    }
    [[nodiscard]] static std::int64_t most_of(std::int64_t width) noexcept {
        return (std::numeric_limits<std::int64_t>::max)() >> (64 - 8 * width);
    }
    /// What is left to be said of the job is the caller's to fill in. Valid until the next one.
    fill_job& add_job(step kind, work const& w, std::uint32_t to, piece const& p, std::size_t range, std::int64_t done,
                      std::int32_t width = 0) {
        plan_.jobs.push_back({.kind = kind,
                              .width = width,
                              .node = w.node,
                              .buffer = to,
                              .range = p.ranges[range],
                              .begin = p.skip(),
                              .at = done,
                              .count = p.length});
        return plan_.jobs.back();
    }
    void add_copy(std::uint32_t to, void const* data, extent const& s, std::int64_t done) {
        plan_.jobs.push_back({.kind = step::bytes,
                              .buffer = to,
                              .range = add_range(data, s.begin, s.length()),
                              .at = done,
                              .count = s.length()});
    }
    void add_clear(step kind, work const& w, std::uint32_t to, std::int32_t width, std::uint32_t other = nowhere) {
        plan_.jobs.push_back(
            {.kind = kind, .width = width, .node = w.node, .buffer = to, .other = other, .count = node(w).length});
    }

    /// Children of the node; `items(piece, child)`: those that the piece needs, counted from the child's first one.
    template <class Items>
    void add_children(work const& w, Items items) {
        auto const first = static_cast<std::uint32_t>(plan_.nodes.size());
        auto const& like = node(w).like->children;
        node(w).first_child = first;
        node(w).children = static_cast<std::uint32_t>(like.size());
        for (std::size_t c = 0; c < like.size(); ++c)
            plan_.nodes.push_back({.like = &like[c], .parent = w.node, .place = static_cast<int>(c)});
        for (std::size_t c = 0; c < like.size(); ++c) {
            work const next{first + static_cast<std::uint32_t>(c), pieces_.size(), w.count};
            for (std::size_t i = 0; i < w.count; ++i) {
                auto const& child = at(w, i).node->children[c];
                extent const s = items(i, c);
                if (s.length() != 0 && s.end > child.length)
                    refuse(next.node, errc::bad_column,
                           message{"it has "} << child.length << " items, and its parent needs " << s.end);
                pieces_.push_back({&child, child.offset + (s.length() != 0 ? s.begin : 0), s.length()});
            }
            level_.push_back(next);
        }
    }

    /// Gives buffers their places: those of one subtree side by side.
    void place(std::uint32_t i) {
        auto const n = plan_.nodes[i];
        for (std::uint32_t b = n.first_buffer; b < n.first_buffer + n.buffers; ++b) {
            auto& buffer = plan_.buffers[plan_.buffers[b].same == nowhere ? b : plan_.buffers[b].same];
            if (buffer.bytes < 0 || buffer.offset >= 0) continue;
            buffer.offset = buffer.bytes == 0 ? 0 : plan_.arena;
            std::int64_t end = 0;
            if (!checked_add(plan_.arena, buffer.bytes, end) ||
                end > (std::numeric_limits<std::int64_t>::max)() - arena_alignment)
                refuse(i, errc::overflow, message{"its bytes overflow"});
            plan_.arena = (end + arena_alignment - 1) / arena_alignment * arena_alignment;
        }
        for (std::uint32_t c = 0; c < n.children; ++c) place(n.first_child + c);
        if (n.dictionary != nowhere) place(n.dictionary);
    }

    [[noreturn]] void refuse(std::uint32_t node, errc code, message const& what) const {
        fail(code, api_, path_of(plan_, node) << what.c_str(), where_);
    }
    [[noreturn]] void refuse(piece const& p, message const& what) const {
        fail(errc::bad_column, api_, message{} << column_path{p.node->name} << ": " << what.c_str(), where_);
    }

    char const* api_;
    std::source_location where_;
    compaction plan_{};
    std::vector<piece> pieces_{};
    std::vector<work> level_{};
    std::vector<extent> spans_{};
    std::map<identity, std::uint32_t> known_{};
    identity identity_{};
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
