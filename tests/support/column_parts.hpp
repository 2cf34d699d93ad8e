// Columns made of the nodes of other columns, without a copy.
#pragma once

#include <ferry/column/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/column/parts.hpp>
#include <ferry/column/view.hpp>

#include <cstdint>
#include <deque>
#include <source_location>
#include <string_view>
#include <utility>
#include <vector>

namespace support {

/// Parts of the trees of other columns; keeps these columns alive.
class parts_store {
   public:
    ferry::column_parts of(ferry::column_view v, std::string_view name) {
        auto const& n = v.node();
        auto& children = store_.emplace_back();
        for (auto const& child : n.children) children.push_back(of(child, child.name));
        ferry::column_parts out{.format = n.format,
                                .name = name,
                                .length = v.length(),
                                .null_count = -1,
                                .offset = v.offset(),
                                .buffers = n.buffers};
        out.children = children;
        if (n.dictionary != nullptr) out.dictionary = &store_.emplace_back(1, of(*n.dictionary, "")).front();
        return out;
    }
    ferry::column_parts rows(std::vector<ferry::column_parts> fields, std::string_view name = "") {
        auto const length = fields.front().length;
        return {.format = "+s",
                .name = name,
                .length = length,
                .buffers = none_,
                .children = store_.emplace_back(std::move(fields))};
    }
    /// A column of one list, which contains all items of `item`.
    ferry::column_parts list(ferry::column_parts item) {
        ends_.push_back({0, static_cast<std::int32_t>(item.length)});
        buffers_.push_back({ferry::column_buffer{}, ferry::column_buffer{ends_.back().data(), 8}});
        return {.format = "+l",
                .name = "list",
                .length = 1,
                .buffers = buffers_.back(),
                .children = store_.emplace_back(1, item)};
    }

   private:
    std::deque<std::vector<ferry::column_parts>> store_;
    std::deque<std::vector<std::int32_t>> ends_;
    std::deque<std::vector<ferry::column_buffer>> buffers_;
    ferry::column_buffer none_[1] = {};
};

/// A copy of the column in host memory.
inline ferry::column packed(ferry::column_view v, ferry::detail::slices how) {
    auto const here = std::source_location::current();
    ferry::detail::host_fetcher fetcher;
    ferry::detail::compaction_planner planner{fetcher, "packed", here};
    return ferry::detail::fill_column(planner.run({&v, 1}, how), ferry::host_space{}, "packed", here);
}

}  // namespace support
