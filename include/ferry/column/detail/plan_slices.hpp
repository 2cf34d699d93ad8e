// ferry: plans slices of one memory: what they have in common, and then each as a part of it.
#pragma once

#include <ferry/column/detail/compaction.hpp>
#include <ferry/column/detail/compaction_state.hpp>
#include <ferry/column/detail/plan_variable.hpp>
#include <ferry/column/detail/shared_slices.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/view.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>  // see compaction.hpp

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// Which slices overlap is known once the tree was planned with each apart: then it is planned again.
class slice_planner : protected variable_planner {
   protected:
    using variable_planner::variable_planner;

    /// False when the last turn has met no slices that were not joined.
    [[nodiscard]] bool find_parts() { return slices_.find(); }
    void restart() {
        plan_ = {};
        fetched_ = 0;
        pieces_.clear();
        known_.clear();
        of_parts_.clear();
        parts_.assign(slices_.count(), {});
        drop_data();
    }
    /// Slices of a part that was found are not planned: the part is, when the first of them is met.
    void set_slices_aside() {
        for (auto const& w : std::exchange(level_, {})) {
            auto const& p = at(w, 0);
            stored_items const items{p.node, p.offset, p.offset + p.length};
            bool const may_share = w.count == 1 && p.length != 0;  // one after the other they are new memory
            if (auto const i = may_share ? slices_.part_of(items) : -1; i >= 0) {
                auto const which = static_cast<std::size_t>(i);
                of_parts_.push_back({w.node, w.first, which});
                if (parts_[which].node == nowhere) begin_part(which, w.node);
                continue;
            }
            level_.push_back(w);
        }
    }
    /// After the last turn.
    void fill_slices() {
        for (auto const& s : of_parts_) count_nulls(s);
        for (auto const& s : of_parts_) fill_slice(s.node);
    }

   private:
    /// Where slices of one memory are planned.
    struct part {
        std::uint32_t node = nowhere;
        std::size_t piece = 0;
    };
    struct slice {
        std::uint32_t node;
        std::size_t piece, part;
    };

    void begin_part(std::size_t which, std::uint32_t first) {
        auto const& all = slices_.part(static_cast<std::ptrdiff_t>(which));
        parts_[which] = {static_cast<std::uint32_t>(plan_.nodes.size()), pieces_.size()};
        plan_.nodes.push_back(
            {.like = all.node, .parent = plan_.nodes[first].parent, .place = plan_.nodes[first].place});
        pieces_.push_back({all.node, all.begin, all.end - all.begin});
        level_.push_back({parts_[which].node, parts_[which].piece, 1});
        slices_.note(all);
    }
    void count_nulls(slice const& s) {
        auto const& mine = pieces_[s.piece];
        auto const& all = pieces_[parts_[s.part].piece];
        auto& n = plan_.nodes[s.node];
        n.slice_of = parts_[s.part].node;
        n.flags = n.like->flags;
        n.length = mine.length;
        n.offset = mine.offset - all.offset;
        bool const has_nulls = layout_of(all.node->type).has_validity() && plan_.nodes[n.slice_of].null_count != 0;
        if (has_nulls) n.null_count = n.length - count_set(validity(all).slice(n.offset, n.length));
    }
    /// Gives a slice the buffers of its part, and slices of the part's children.
    void fill_slice(std::uint32_t to) {
        auto const from = std::exchange(plan_.nodes[to].slice_of, nowhere);
        if (from == nowhere) return;
        fill_slice(from);
        auto const of = plan_.nodes[from];
        auto const like = plan_.nodes[to].like;
        auto const add = [&](column_node const& child, std::uint32_t source, int place) {
            auto made = plan_.nodes[source];
            made.like = &child;
            made.flags = child.flags;
            made.parent = to;
            made.place = place;
            made.slice_of = source;
            plan_.nodes.push_back(made);
        };
        auto const first = static_cast<std::uint32_t>(plan_.nodes.size());
        for (std::uint32_t c = 0; c < of.children; ++c) add(like->children[c], of.first_child + c, static_cast<int>(c));
        if (of.dictionary != nowhere) add(*like->dictionary, of.dictionary, -1);
        auto& n = plan_.nodes[to];
        n.first_buffer = of.first_buffer;
        n.buffers = of.buffers;
        n.first_child = first;
        n.children = of.children;
        n.dictionary = of.dictionary == nowhere ? nowhere : first + of.children;
        for (std::uint32_t i = first, end = first + of.children + (of.dictionary != nowhere); i < end; ++i)
            fill_slice(i);
    }

    shared_slices slices_{};
    std::vector<part> parts_{};  // by their numbers in slices_
    std::vector<slice> of_parts_{};
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
