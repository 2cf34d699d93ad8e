// ferry: plans the layouts whose items differ in length: text, lists, and the views of both.
#pragma once

#include <ferry/base/checked.hpp>
#include <ferry/column/detail/compaction.hpp>
#include <ferry/column/detail/compaction_state.hpp>
#include <ferry/column/detail/load.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>  // an order of addresses
#include <span>
#include <vector>  // see compaction.hpp

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

class variable_planner : protected compaction_state {
   protected:
    using compaction_state::compaction_state;

    /// Rebases offsets; `spans_` gets what they point to. `limit(p)`: how much is there.
    template <class Limit>
    void add_offsets(work const& w, std::int32_t width, Limit limit) {
        std::uint32_t to = 0;
        bool const is_new =
            add_buffer(bytes_for(w, node(w).length + 1, width), identify(w, step::offsets, width, 1, false), to);
        if (node(w).length == 0) plan_.jobs.push_back({.kind = step::zero, .buffer = to});
        spans_.assign(w.count, {});
        std::int64_t done = 0, total = 0;
        for (std::size_t i = 0; i < w.count; ++i) {
            auto const& p = at(w, i);
            if (p.length == 0) continue;
            extent const s{load_item(p.ranges[1], p.skip(), width), load_item(p.ranges[1], p.skip() + p.length, width)};
            auto const most = limit(p);
            if (s.begin < 0 || s.end < s.begin || s.end > most)
                refuse(w.node, errc::bad_column,
                       message{"its offsets go from "} << s.begin << " to " << s.end << ", and there are " << most);
            if (is_new) {
                auto& j = add_job(step::offsets, w, to, p, 1, done, width);
                j.count = p.length + 1;
                j.subtract = s.begin;
                j.add = total;
                j.limit = s.length();
            }
            spans_[i] = s;
            done += p.length;
            if (!checked_add(total, s.length(), total)) refuse(w.node, errc::overflow, message{"its offsets overflow"});
            require_at_most(w, total, most_of(width), "bytes or items");
        }
    }
    void add_text(work const& w, std::int32_t width) {
        add_offsets(w, width, [&](piece const& p) {
            return p.ranges[3] != nowhere ? load_item(p.ranges[3], 0, width) : p.node->buffers[2].bytes;
        });
        auto const offsets = static_cast<std::uint32_t>(plan_.buffers.size() - 1);
        std::int64_t total = 0;
        for (auto const& s : spans_) total += s.length();
        auto const* const same = identify(w, step::clear_text, width, 2, true, 1);
        if (same != nullptr && node(w).null_count == 0)  // the same bytes, wherever each item begins
            identity_ = {static_cast<std::uint64_t>(step::clear_text) << 40,
                         address(at(w, 0), 2),
                         0,
                         0,
                         static_cast<std::uint64_t>(spans_[0].begin),
                         static_cast<std::uint64_t>(spans_[0].end)};
        std::uint32_t to = 0;
        if (!add_buffer(total, same, to) || total == 0) return;
        std::int64_t done = 0;
        for (std::size_t i = 0; i < w.count; ++i) {
            auto const s = spans_[i];
            auto const& bytes = at(w, i).node->buffers[2];
            if (s.length() != 0 && bytes.data == nullptr)
                refuse(w.node, errc::bad_column, message{"data buffer is null, needs "} << s.end << " bytes");
            add_copy(to, bytes.data, s, done);
            done += s.length();
        }
        if (node(w).null_count > 0) add_clear(step::clear_text, w, to, width, offsets);
    }
    void add_list(work const& w, std::int32_t width) {
        add_offsets(w, width, [](piece const& p) { return p.node->children[0].length; });
        add_children(w, [&](std::size_t i, std::size_t) { return spans_[i]; });
    }
    void add_list_view(work const& w, std::int32_t width) {
        auto const bytes = bytes_for(w, node(w).length, width);
        std::uint32_t starts = 0, sizes = 0;
        bool const is_new = add_buffer(bytes, identify(w, step::list_views, width, 1, true, 2), starts);
        static_cast<void>(add_buffer(bytes, identify(w, step::list_views, 16 + width, 2, true, 1), sizes));
        spans_.assign(w.count, {});
        std::int64_t done = 0, total = 0;
        for (std::size_t i = 0; i < w.count; ++i) {
            auto const& p = at(w, i);
            auto const valid = validity(p);
            auto const items = p.node->children[0].length;
            for (std::int64_t k = 0; k < p.length; ++k) {
                if (!valid[k]) continue;
                auto const start = load_item(p.ranges[1], p.skip() + k, width),
                           size = load_item(p.ranges[2], p.skip() + k, width);
                if (start < 0 || size < 0 || start > items || size > items - start)
                    refuse(w.node, errc::bad_column,
                           message{"item "} << k << " has " << size << " values from " << start << " on, and there are "
                                            << items);
                if (size != 0) spans_[i].include(start, start + size);
            }
            if (is_new && p.length != 0) {
                auto& j = add_job(step::list_views, w, starts, p, 1, done, width);
                j.other = sizes;
                j.second = p.ranges[2];
                j.subtract = spans_[i].begin;
                j.add = total;
            }
            done += p.length;
            if (!checked_add(total, spans_[i].length(), total))
                refuse(w.node, errc::overflow, message{"its views overflow"});
            require_at_most(w, total, most_of(width), "items");
        }
        add_children(w, [&](std::size_t i, std::size_t) { return spans_[i]; });
    }
    void add_views(work const& w) {
        std::uint32_t to = 0;
        static_cast<void>(add_buffer(bytes_for(w, node(w).length, 16), nullptr, to));
        std::vector<std::int64_t> lengths;
        auto const first_use = uses_.size();
        std::int64_t done = 0;
        for (std::size_t i = 0; i < w.count; done += at(w, i).length, ++i) {
            auto const& p = at(w, i);
            auto const data = p.node->buffers.subspan(2, p.node->buffers.size() - 3);
            std::vector<extent> used(data.size());
            auto const valid = validity(p);
            for (std::int64_t k = 0; k < p.length; ++k) {
                if (!valid[k]) continue;
                auto const view = load<view_item>(host(p.ranges[1]), p.skip() + k);
                auto const buffer = static_cast<std::size_t>(view.buffer);
                bool const is_apart = view.size > view_item::most_inline;
                if (view.size < 0 || (is_apart && (buffer >= data.size() || view.offset < 0)))
                    refuse(w.node, errc::bad_column,
                           message{"view "} << k << " has " << view.size << " bytes at " << view.offset << " of buffer "
                                            << view.buffer << ", and there are " << std::uint64_t{data.size()});
                if (is_apart) used[buffer].include(view.offset, std::int64_t{view.offset} + view.size);
            }
            auto const table = plan_.numbers.size();
            for (std::size_t k = 0; k < data.size(); ++k) {
                auto const u = used[k];
                plan_.numbers.insert(plan_.numbers.end(), {static_cast<std::int64_t>(lengths.size()), u.begin});
                if (u.length() == 0) continue;
                auto const there = data[k].bytes >= 0
                                       ? data[k].bytes
                                       : load<std::int64_t>(host(p.ranges[3]), static_cast<std::int64_t>(k));
                if (u.end > there || data[k].data == nullptr)
                    refuse(w.node, errc::bad_column,
                           message{"views reach to byte "} << u.end << " of data buffer " << std::uint64_t{k}
                                                           << ", which holds " << there);
                uses_.push_back({static_cast<std::byte const*>(data[k].data), u,
                                 static_cast<std::uint32_t>(plan_.buffers.size()), plan_.numbers.size() - 1,
                                 lengths.size()});
                plan_.buffers.push_back({.bytes = u.length()});
                lengths.push_back(u.length());
            }
            if (p.length == 0) continue;
            auto& j = add_job(step::views, w, to, p, 1, done);
            j.limit = static_cast<std::int64_t>(data.size());
            j.table = table;
        }
        std::uint32_t last = 0;
        static_cast<void>(add_buffer(8 * static_cast<std::int64_t>(lengths.size()), nullptr, last));
        plan_.jobs.push_back({.kind = step::numbers,
                              .buffer = last,
                              .count = static_cast<std::int64_t>(lengths.size()),
                              .table = plan_.numbers.size()});
        for (auto i = first_use; i < uses_.size(); ++i) uses_[i].length += plan_.numbers.size();
        plan_.numbers.insert(plan_.numbers.end(), lengths.begin(), lengths.end());
    }
    /// Plans the data that views point to: what several use together, once.
    void add_data() {
        std::ranges::sort(uses_, [](data_use const& a, data_use const& b) {
            return a.data != b.data ? std::less<>{}(a.data, b.data) : a.used.begin < b.used.begin;
        });
        for (auto first = uses_.begin(); first != uses_.end();) {
            extent all = first->used;
            auto end = first + 1;
            for (; end != uses_.end() && end->data == first->data && end->used.begin < all.end; ++end)
                all.include(end->used.begin, end->used.end);
            for (auto const& use : std::span{first, end}) {
                plan_.buffers[use.buffer] = {.bytes = all.length(),
                                             .same = use.buffer == first->buffer ? nowhere : first->buffer};
                plan_.numbers[use.begin] = all.begin;
                plan_.numbers[use.length] = all.length();
            }
            add_copy(first->buffer, first->data, all, 0);
            first = end;
        }
        uses_.clear();
    }

   private:
    /// Data of one buffer that a node's views point to, and the numbers that say so.
    struct data_use {
        std::byte const* data;
        extent used;
        std::uint32_t buffer;
        std::size_t begin, length;
    };
    std::vector<data_use> uses_{};
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
