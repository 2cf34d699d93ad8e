// ferry: one dictionary for chunks that come with several.
#pragma once

#include <ferry/column/detail/compaction.hpp>
#include <ferry/column/view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>  // one entry for each chunk

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

/// What a column on the host holds, however it is stored: its compaction. Names and metadata do not count.
class compacted_values {
   public:
    explicit compacted_values(column_node const& of);
    [[nodiscard]] bool operator==(compacted_values const& other) const noexcept;

   private:
    compaction plan_;
    std::vector<std::byte> arena_;
};

/// Whether two trees have the same buffers: then no byte need be compared.
[[nodiscard]] inline bool has_same_storage(column_node const& a, column_node const& b) noexcept {
    if (&a == &b) return true;
    bool same = a.format == b.format && a.length == b.length && a.offset == b.offset &&
                std::ranges::equal(a.buffers, b.buffers) && a.children.size() == b.children.size() &&
                (a.dictionary == nullptr) == (b.dictionary == nullptr);
    for (std::size_t i = 0; same && i < a.children.size(); ++i) same = has_same_storage(a.children[i], b.children[i]);
    return same && (a.dictionary == nullptr || has_same_storage(*a.dictionary, *b.dictionary));
}

struct unified {
    std::vector<column_node const*> distinct{};  ///< one after the other they are the new dictionary
    std::vector<std::int64_t> shifts{};          ///< for each chunk: what is added to its indices
};

/// Equal dictionaries become one; the others are appended. Their items may repeat.
[[nodiscard]] inline unified unify(std::vector<column_node const*> const& dictionaries) {
    unified u;
    std::vector<std::int64_t> begins;
    // Of the distinct ones: each is compacted once, whatever it is compared with.
    std::vector<std::optional<compacted_values>> values;
    std::int64_t total = 0;
    for (auto const* d : dictionaries) {
        std::size_t i = 0;
        while (i < u.distinct.size() && !has_same_storage(*u.distinct[i], *d)) ++i;
        if (i == u.distinct.size()) {
            std::optional<compacted_values> own;
            if (i != 0) own.emplace(*d);
            for (i = 0; i < u.distinct.size(); ++i) {
                if (!values[i]) values[i].emplace(*u.distinct[i]);
                if (*values[i] == *own) break;
            }
            if (i == u.distinct.size()) values.push_back(std::move(own));
        }
        if (i == u.distinct.size()) {
            u.distinct.push_back(d);
            begins.push_back(total);
            // The planner checks the sum.
            total =
                static_cast<std::int64_t>(static_cast<std::uint64_t>(total) + static_cast<std::uint64_t>(d->length));
        }
        u.shifts.push_back(begins[i]);
    }
    return u;
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
