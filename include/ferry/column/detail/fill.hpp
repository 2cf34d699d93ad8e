// ferry: writes what a compaction has planned.
// length: one function for each step of the plan, and the switch between them.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/detail/compaction.hpp>
#include <ferry/column/detail/copy_bits.hpp>
#include <ferry/column/detail/load.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <vector>  // see compaction.hpp

namespace ferry::inline FERRY_ABI_NAMESPACE::detail {

template <class T>
void store(std::byte* to, std::int64_t i, T value) noexcept {
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof value);
}

/// The path of a planned node, for messages.
[[nodiscard]] inline message path_of(compaction const& plan, std::uint32_t node) {
    std::vector<std::uint32_t> way;
    for (auto i = node; i != nowhere; i = plan.nodes[i].parent) way.push_back(i);
    std::vector<column_path> steps;
    steps.reserve(way.size());  // each refers to the one before
    for (auto i = way.rbegin(); i != way.rend(); ++i) {
        auto const& n = plan.nodes[*i];
        if (steps.empty()) steps.emplace_back(n.like->name);
        else if (n.place < 0) steps.push_back(steps.back().dictionary());
        else steps.push_back(column_path{steps.back(), plan.nodes[n.parent].like->type.id, n.place, n.like->name});
    }
    return message{} << steps.back() << ": ";
}

/// Fills the arena of a plan whose ranges were fetched. What the plan has not proven is proven here: every read and
/// write is in range whatever the values are, and values that do not hold together end in an error.
class arena_filler {
   public:
    arena_filler(compaction const& plan, std::byte* arena, char const* api, std::source_location where) noexcept
        : plan_{plan}, arena_{arena}, api_{api}, where_{where} {}

    void run() const {
        for (auto const& j : plan_.jobs) run(j);
        for (auto const& b : plan_.buffers) {
            if (b.bytes <= 0 || b.same != nowhere) continue;
            auto const end = b.offset + b.bytes;
            std::memset(arena_ + end, 0,
                        static_cast<std::size_t>((arena_alignment - end % arena_alignment) % arena_alignment));
        }
    }

   private:
    using step = fill_job::step;

    void run(fill_job const& j) const {
        bool const is_wide = j.width == 8;
        switch (j.kind) {
            case step::bytes:
                if (j.count != 0) std::memcpy(to(j) + j.at, from(j) + j.begin, static_cast<std::size_t>(j.count));
                return;
            case step::bits:
                copy_bits({j.range == nowhere ? nullptr : from(j), j.begin, j.count},
                          reinterpret_cast<unsigned char*>(to(j)), j.at);
                return;
            case step::offsets: is_wide ? offsets<std::int64_t>(j) : offsets<std::int32_t>(j); return;
            case step::run_ends:
                is_wide        ? run_ends<std::int64_t>(j)
                : j.width == 4 ? run_ends<std::int32_t>(j)
                               : run_ends<std::int16_t>(j);
                return;
            case step::indices: indices(j); return;
            case step::list_views: is_wide ? list_views<std::int64_t>(j) : list_views<std::int32_t>(j); return;
            case step::dense_union: dense_union(j); return;
            case step::views: views(j); return;
            case step::numbers:
                if (j.count != 0)
                    std::memcpy(to(j), plan_.numbers.data() + j.table, static_cast<std::size_t>(8 * j.count));
                return;
            case step::clear_items: clear_items(j); return;
            case step::clear_text: is_wide ? clear_text<std::int64_t>(j) : clear_text<std::int32_t>(j); return;
            case step::zero: std::memset(to(j), 0, static_cast<std::size_t>(plan_.buffer(j.buffer).bytes)); return;
        }
    }

    template <class T>
    void offsets(fill_job const& j) const {
        auto const* in = from(j) + j.begin * static_cast<std::int64_t>(sizeof(T));
        auto* const out = to(j) + j.at * static_cast<std::int64_t>(sizeof(T));
        T before = load<T>(in, 0);
        bool shrinks = before != j.subtract;  // the plan has seen another first one
        for (std::int64_t i = 0; i < j.count; ++i) {
            T const value = load<T>(in, i);
            shrinks |= value < before;
            before = value;
            store(out, i,
                  static_cast<T>(static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(j.subtract) +
                                 static_cast<std::uint64_t>(j.add)));
        }
        if (shrinks || before - j.subtract != j.limit)
            refuse(j, message{"its offsets do not grow from "} << j.subtract << " to " << j.subtract + j.limit);
    }
    template <class T>
    void run_ends(fill_job const& j) const {
        std::int64_t before = j.subtract;
        for (std::int64_t i = 0; i < j.count; ++i) {
            std::int64_t const end = load<T>(from(j), j.begin + i);
            if (end <= before) refuse(j, message{"its run ends do not grow: "} << end << " comes after " << before);
            before = end;
            store(to(j), j.at + i, static_cast<T>((std::min)(end - j.subtract, j.limit) + j.add));
        }
    }
    void indices(fill_job const& j) const {
        switch (j.width) {
            case 1: return j.is_signed ? indices<std::int8_t>(j) : indices<std::uint8_t>(j);
            case 2: return j.is_signed ? indices<std::int16_t>(j) : indices<std::uint16_t>(j);
            case 4: return j.is_signed ? indices<std::int32_t>(j) : indices<std::uint32_t>(j);
            default: return j.is_signed ? indices<std::int64_t>(j) : indices<std::uint64_t>(j);
        }
    }
    template <class T>
    void indices(fill_job const& j) const {
        auto const valid = validity(j);
        for (std::int64_t i = 0; i < j.count; ++i) {
            auto const index = static_cast<std::uint64_t>(load<T>(from(j), j.begin + i));  // negative ones are huge
            if (valid[i] && index >= static_cast<std::uint64_t>(j.limit))
                refuse(j, message{"index "} << static_cast<std::int64_t>(index) << " is outside of its dictionary of "
                                            << j.limit << " items");
            store(to(j), j.at + i, valid[i] ? static_cast<T>(index + static_cast<std::uint64_t>(j.add)) : T{});
        }
    }
    template <class T>
    void list_views(fill_job const& j) const {
        auto const valid = validity(j);
        auto const* const sizes = at(j.second);
        for (std::int64_t i = 0; i < j.count; ++i) {
            T const size = valid[i] ? load<T>(sizes, j.begin + i) : T{};
            T const start = size == 0 ? T{} : static_cast<T>(load<T>(from(j), j.begin + i) - j.subtract + j.add);
            store(to(j), j.at + i, start);
            store(arena_ + plan_.buffer(j.other).offset, j.at + i, size);
        }
    }
    void dense_union(fill_job const& j) const {
        auto const* const ids = at(j.second);
        for (std::int64_t i = 0; i < j.count; ++i) {
            // The plan has seen them: 0 to 127.
            auto const id = static_cast<std::size_t>(load<std::uint8_t>(ids, j.begin + i)) & 127;
            store(to(j), j.at + i,
                  static_cast<std::int32_t>(load<std::int32_t>(from(j), j.begin + i) + plan_.numbers[j.table + id]));
        }
    }
    /// The table has, for each buffer, its number in the new column and what is subtracted from offsets.
    void views(fill_job const& j) const {
        auto const valid = validity(j);
        for (std::int64_t i = 0; i < j.count; ++i) {
            std::int32_t view[4] = {};  // length, then 12 bytes; or prefix, buffer, offset
            if (valid[i]) std::memcpy(view, from(j) + 16 * (j.begin + i), sizeof view);
            FERRY_KEEP_LOADED(view, m);
            if (view[0] < 0 || (view[0] > 12 && (view[2] < 0 || view[2] >= j.limit)))  // the plan has seen another
                refuse(j, message{"view "} << i << " changed while it was read");
            if (view[0] > 12) {
                auto const entry = j.table + 2 * static_cast<std::size_t>(view[2]);
                view[2] = static_cast<std::int32_t>(plan_.numbers[entry]);
                view[3] = static_cast<std::int32_t>(view[3] - plan_.numbers[entry + 1]);
            } else {
                std::memset(reinterpret_cast<std::byte*>(view) + 4 + view[0], 0,
                            static_cast<std::size_t>(12 - view[0]));
            }
            std::memcpy(to(j) + 16 * (j.at + i), view, sizeof view);
        }
    }

    /// Calls `f(i)` for each null of the node.
    template <class F>
    void for_each_null(fill_job const& j, F f) const {
        auto const valid = validity(j);
        auto const* const bytes = reinterpret_cast<std::byte const*>(valid.data());
        for (std::int64_t i = 0; i < j.count; i += 56) {
            auto const n = std::min<std::int64_t>(j.count - i, 56);
            auto nulls = load_bits(bytes, i, n) ^ low_bits(n);
            for (; nulls != 0; nulls &= nulls - 1) f(i + std::countr_zero(nulls));
        }
    }
    void clear_items(fill_job const& j) const {
        auto* const out = to(j);
        if (j.width == 0) {
            auto const* const valid = arena_ + plan_.buffer(plan_.nodes[j.node].first_buffer).offset;
            for (std::int64_t i = 0, n = plan_.buffer(j.buffer).bytes; i < n; ++i) out[i] &= valid[i];
        } else {
            for_each_null(
                j, [&](std::int64_t i) { std::memset(out + i * j.width, 0, static_cast<std::size_t>(j.width)); });
        }
    }
    template <class T>
    void clear_text(fill_job const& j) const {
        auto const* const offsets = arena_ + plan_.buffer(j.other).offset;
        for_each_null(j, [&](std::int64_t i) {
            T const begin = load<T>(offsets, i), end = load<T>(offsets, i + 1);
            if (begin < end) std::memset(to(j) + begin, 0, static_cast<std::size_t>(end - begin));
        });
    }

    /// Of the items that the job writes.
    [[nodiscard]] bitmap_view validity(fill_job const& j) const noexcept {
        auto const& n = plan_.nodes[j.node];
        if (n.buffers == 0 || n.null_count == 0) return {nullptr, 0, j.count};
        auto const& b = plan_.buffer(n.first_buffer);
        return {b.bytes < 0 ? nullptr : arena_ + b.offset, j.at, j.count};
    }
    [[nodiscard]] std::byte* to(fill_job const& j) const noexcept { return arena_ + plan_.buffer(j.buffer).offset; }
    [[nodiscard]] std::byte const* from(fill_job const& j) const noexcept { return at(j.range); }
    [[nodiscard]] std::byte const* at(std::uint32_t range) const noexcept { return plan_.ranges[range].at; }
    [[noreturn]] void refuse(fill_job const& j, message const& what) const {
        fail(errc::bad_column, api_, path_of(plan_, j.node) << what.c_str(), where_);
    }

    compaction const& plan_;
    std::byte* arena_;
    char const* api_;
    std::source_location where_;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::detail
