// ferry: plans the compaction of columns: goes down their trees depth by depth, and reads offsets as it goes.
// length: one function for each layout of Arrow's.
#pragma once

#include <ferry/base/checked.hpp>
#include <ferry/column/detail/compaction.hpp>
#include <ferry/column/detail/compaction_state.hpp>
#include <ferry/column/detail/fill.hpp>
#include <ferry/column/detail/plan_variable.hpp>
#include <ferry/column/detail/same_type.hpp>
#include <ferry/column/detail/unify.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <span>
#include <utility>
#include <vector>  // see compaction.hpp

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// The chunks are of one type, in memory that the host reads.
class compaction_planner : variable_planner {
   public:
    compaction_planner(char const* api, std::source_location where) noexcept : variable_planner{api, where} {}

    [[nodiscard]] compaction run(std::span<column_view const> chunks) {
        descend(chunks);
        add_data();
        place(0);
        return std::move(plan_);
    }

   private:
    void descend(std::span<column_view const> chunks) {
        plan_.nodes.push_back({.like = &chunks[0].node()});
        for (auto const& c : chunks) pieces_.push_back({&c.node(), c.offset(), c.length()});
        level_.push_back({0, 0, chunks.size()});
        while (!level_.empty()) {
            for (auto const& w : level_)
                for (std::size_t i = 0; i < w.count; ++i) request(pieces_[w.first + i]);
            for (auto const& w : std::exchange(level_, {})) analyse(w);
        }
    }
    void analyse(work const& w) {
        auto const& type = node(w).like->type;
        auto const layout = layout_of(type);
        node(w).first_buffer = static_cast<std::uint32_t>(plan_.buffers.size());
        node(w).flags = node(w).like->flags;
        for (std::size_t i = 0; i < w.count; ++i) {
            if (!checked_add(node(w).length, at(w, i).length, node(w).length))
                refuse(w.node, errc::overflow, message{"its length overflows"});
            node(w).flags = merged_flags(node(w).flags, at(w, i).node->flags);
        }
        if (type.id == type_id::null) node(w).null_count = node(w).length;
        if (layout.has_validity()) add_validity(w);
        switch (type.id) {
            case type_id::null: break;
            case type_id::string:
            case type_id::binary: add_text(w, 4); break;
            case type_id::large_string:
            case type_id::large_binary: add_text(w, 8); break;
            case type_id::list:
            case type_id::map: add_list(w, 4); break;
            case type_id::large_list: add_list(w, 8); break;
            case type_id::list_view: add_list_view(w, 4); break;
            case type_id::large_list_view: add_list_view(w, 8); break;
            case type_id::string_view:
            case type_id::binary_view: add_views(w); break;
            case type_id::structure: add_fields(w, 1); break;
            case type_id::fixed_size_list: add_fields(w, type.width); break;
            case type_id::sparse_union: add_type_ids(w), add_fields(w, 1); break;
            case type_id::dense_union: add_dense_union(w); break;
            case type_id::run_end_encoded: add_runs(w); return;  // its buffers are its child's
            default: node(w).like->dictionary == nullptr ? add_items(w) : add_indices(w);
        }
        node(w).buffers = static_cast<std::uint32_t>(plan_.buffers.size()) - node(w).first_buffer;
    }

    void add_validity(work const& w) {
        std::int64_t nulls = 0;
        for (std::size_t i = 0; i < w.count; ++i) nulls += at(w, i).length - count_set(validity(at(w, i)));
        node(w).null_count = nulls;
        std::uint32_t to = 0;
        if (!add_buffer(nulls > 0 ? bitmap_bytes(node(w).length) : -1, identify(w, step::bits, 0, 0, false), to) ||
            nulls == 0)
            return;
        std::int64_t done = 0;
        for (std::size_t i = 0; i < w.count; done += at(w, i).length, ++i)
            add_job(step::bits, w, to, at(w, i), 0, done);
    }
    void add_items(work const& w) {
        auto const bits = item_bits(node(w).like->type);
        auto const width = static_cast<std::int32_t>(bits / 8);
        bool const is_bool = bits == 1;
        std::uint32_t to = 0;
        auto const bytes = is_bool ? bitmap_bytes(node(w).length) : bytes_for(w, node(w).length, width);
        if (!add_buffer(bytes, identify(w, step::bytes, bits, 1, true), to) || bytes == 0) return;
        std::int64_t done = 0;
        for (std::size_t i = 0; i < w.count; done += at(w, i).length, ++i) {
            auto const& p = at(w, i);
            if (p.length == 0) continue;
            auto& j = add_job(is_bool ? step::bits : step::bytes, w, to, p, 1, done);
            if (!is_bool) j.begin *= width, j.at *= width, j.count *= width;
        }
        if (node(w).null_count > 0) add_clear(step::clear_items, w, to, width);
    }
    void add_indices(work const& w) {
        std::vector<column_node const*> all;
        for (std::size_t i = 0; i < w.count; ++i) all.push_back(at(w, i).node->dictionary);
        auto const u = unify(all);
        auto const child = static_cast<std::uint32_t>(plan_.nodes.size());
        if (u.distinct.size() == 1) {
            add_items(w);
        } else {
            auto const& type = node(w).like->type;
            auto const width = item_bits(type) / 8;
            bool const is_signed = type.id == type_id::int8 || type.id == type_id::int16 || type.id == type_id::int32 ||
                                   type.id == type_id::int64;
            std::int64_t total = 0;
            for (auto const* d : u.distinct)
                if (!checked_add(total, d->length, total))
                    refuse(w.node, errc::overflow, message{"its dictionaries overflow"});
            auto const most = is_signed || width == 8 ? most_of(width) : 2 * most_of(width) + 1;
            require_at_most(w, total - 1, most, "as its last index, with all dictionaries");
            std::uint32_t to = 0;
            static_cast<void>(add_buffer(bytes_for(w, node(w).length, width), nullptr, to));
            std::int64_t done = 0;
            for (std::size_t i = 0; i < w.count; done += at(w, i).length, ++i) {
                auto const& p = at(w, i);
                if (p.length == 0) continue;
                auto& j = add_job(step::indices, w, to, p, 1, done, static_cast<std::int32_t>(width));
                j.is_signed = is_signed;
                j.add = u.shifts[i];
                j.limit = p.node->dictionary->length;
            }
            node(w).flags &= ~std::int64_t{1};  // the order of the merged values is unknown
        }
        plan_.nodes.push_back({.like = u.distinct[0], .parent = w.node, .place = -1});
        node(w).dictionary = child;
        level_.push_back({child, pieces_.size(), u.distinct.size()});
        for (auto const* d : u.distinct) pieces_.push_back({d, d->offset, d->length});
    }

    /// Structs and sparse unions with `each` 1, fixed-size lists: the offset applies to the children.
    void add_fields(work const& w, std::int64_t each) {
        add_children(w, [&](std::size_t i, std::size_t) {
            return extent{at(w, i).offset * each, (at(w, i).offset + at(w, i).length) * each};
        });
    }
    void add_type_ids(work const& w) {
        std::uint32_t to = 0;
        if (!add_buffer(node(w).length, identify(w, step::bytes, 8, 0, false), to)) return;
        std::int64_t done = 0;
        for (std::size_t i = 0; i < w.count; done += at(w, i).length, ++i)
            if (auto const& p = at(w, i); p.length != 0) add_job(step::bytes, w, to, p, 0, done);
    }
    void add_dense_union(work const& w) {
        add_type_ids(w);
        std::uint32_t to = 0;
        bool const is_new =
            add_buffer(bytes_for(w, node(w).length, 4), identify(w, step::dense_union, 4, 1, false, 0), to);
        auto const children = node(w).like->children.size();
        auto const child_of = union_children{node(w).like->type}.child;
        std::vector<extent> used(w.count * children);
        std::vector<std::int64_t> totals(children);
        std::int64_t done = 0;
        for (std::size_t i = 0; i < w.count; done += at(w, i).length, ++i) {
            auto const& p = at(w, i);
            if (p.length == 0) continue;
            for (std::int64_t k = 0; k < p.length; ++k) {
                auto const type = load<std::uint8_t>(host(p.ranges[0]), p.skip() + k);
                auto const start = load_item(p.ranges[1], p.skip() + k, 4);
                if (type > 127 || child_of[type] < 0)
                    refuse(w.node, errc::bad_column,
                           message{"item "} << k << " has type id " << unsigned{type}
                                            << ", which its format does not name");
                auto const child = static_cast<std::size_t>(child_of[type]);
                if (start < 0 || start >= p.node->children[child].length)
                    refuse(w.node, errc::bad_column,
                           message{"item "} << k << " is item " << start << " of child " << std::uint64_t{child}
                                            << ", which has " << p.node->children[child].length);
                used[i * children + child].include(start, start + 1);
            }
            auto const table = plan_.numbers.size();
            plan_.numbers.resize(table + 128);
            for (std::size_t type = 0; type < 128; ++type) {
                if (child_of[type] < 0) continue;
                auto const child = static_cast<std::size_t>(child_of[type]);
                plan_.numbers[table + type] = totals[child] - used[i * children + child].begin;
                totals[child] += used[i * children + child].length();
                require_at_most(w, totals[child], most_of(4), "items of one child");
            }
            if (!is_new) continue;
            auto& j = add_job(step::dense_union, w, to, p, 1, done);
            j.second = p.ranges[0];
            j.table = table;
        }
        add_children(w, [&](std::size_t i, std::size_t child) { return used[i * children + child]; });
    }
    void add_runs(work const& w) {
        auto const& type = node(w).like->children[0].type;
        auto const width = static_cast<std::int32_t>(item_bits(type) / 8);
        auto const child = static_cast<std::uint32_t>(plan_.nodes.size());
        spans_.assign(w.count, {});
        std::int64_t runs = 0, done = 0;
        std::uint32_t const to = static_cast<std::uint32_t>(plan_.buffers.size()) + 1;
        for (std::size_t i = 0; i < w.count; ++i) {
            auto const& p = at(w, i);
            if (p.length == 0) continue;
            auto const& ends = p.node->children[0];
            auto const first_after = [&](std::int64_t item) {  // whatever the ends are, within them
                std::int64_t low = 0, high = ends.length;
                while (low < high) {
                    auto const middle = low + (high - low) / 2;
                    if (load_item(p.ranges[3], middle, width) > item) high = middle;
                    else low = middle + 1;
                }
                return low;
            };
            extent const s{first_after(p.offset), first_after(p.offset + p.length - 1) + 1};
            if (s.end > ends.length || s.length() <= 0)
                refuse(w.node, errc::bad_column, message{"its runs end before item "} << p.offset + p.length);
            auto& j = add_job(step::run_ends, w, to, p, 3, runs, width);
            j.begin = s.begin;
            j.count = s.length();
            j.subtract = p.offset;
            j.add = done;
            j.limit = p.length;
            spans_[i] = s;
            runs += s.length();
            done += p.length;
            require_at_most(w, done, most_of(width), "items");
        }
        add_children(w, [&](std::size_t i, std::size_t) { return spans_[i]; });
        level_.erase(level_.end() - 2);  // the run ends are written here: not as they are
        auto& ends = plan_.nodes[child];
        ends.flags = ends.like->flags;
        ends.length = runs;
        ends.first_buffer = static_cast<std::uint32_t>(plan_.buffers.size());
        ends.buffers = 2;
        plan_.buffers.push_back({});
        plan_.buffers.push_back({.bytes = bytes_for(w, runs, width)});
    }
};

inline compacted_values::compacted_values(column_node const& of) {
    auto const here = std::source_location::current();
    column_view const whole = of;
    plan_ = compaction_planner{"ferry::concat", here}.run({&whole, 1});
    arena_.resize(static_cast<std::size_t>(plan_.arena));
    arena_filler{plan_, arena_.data(), "ferry::concat", here}.run();
}
inline bool compacted_values::operator==(compacted_values const& other) const noexcept {
    auto const is_same = [](planned_node const& x, planned_node const& y) {
        return x.like->format == y.like->format && x.length == y.length && x.null_count == y.null_count &&
               x.buffers == y.buffers && x.children == y.children;
    };
    if (arena_ != other.arena_ || !std::ranges::equal(plan_.nodes, other.plan_.nodes, is_same) ||
        plan_.buffers.size() != other.plan_.buffers.size())
        return false;
    // A buffer that several nodes share is there once: the bytes say nothing without where each node has its own.
    for (std::uint32_t i = 0; i < plan_.buffers.size(); ++i)
        if (plan_.buffer(i).bytes != other.plan_.buffer(i).bytes ||
            plan_.buffer(i).offset != other.plan_.buffer(i).offset)
            return false;
    // What is not in the nodes is in the bytes: lengths of buffers follow from offsets, and those of views are a
    // buffer.
    return true;
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
