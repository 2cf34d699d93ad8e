// ferry: the bytes that the items of a column use, as far as they can be determined without reading its buffers, and
// the plan of a copy of them in one allocation.
#pragma once

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/column/detail/load.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/column/view.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <type_traits>
#include <vector>  // one entry for each buffer

namespace FERRY_NAMESPACE::detail {

/// Returns the number of items at the front of the buffers that a copy can omit: all items before the first one of the
/// view or, if the node has bitmaps, a multiple of 8. Returns 0 for run-end encoded columns, whose runs are not
/// counted.
[[nodiscard]] inline std::int64_t unused_items(column_view c) noexcept {
    if (c.length() == 0) return c.offset();
    if (c.type().id == type_id::run_end_encoded) return 0;
    bool const has_bits = c.type().id == type_id::boolean || !c.validity().is_all_set();
    return has_bits ? c.offset() / 8 * 8 : c.offset();
}
/// Returns child `i`, without the items that belong to the `unused_items` of the parent.
[[nodiscard]] inline column_view used_child(column_view c, int i) noexcept {
    if (slices_children(c.type().id)) return part_of_child(c, i, unused_items(c));
    auto const child = child_of(c, i);
    return c.length() != 0 || c.type().id == type_id::run_end_encoded ? child
                                                                      : column_view{child.node(), child.offset(), 0};
}

/// A range of bytes of a buffer.
struct used_range {
    std::byte const* begin = nullptr;
    std::int64_t bytes = 0;  ///< -1 if unknown
};
/// Returns the bytes of a buffer that the items use, from item `unused` on. For data whose size is in offsets or
/// lengths, returns the whole buffer.
[[nodiscard]] inline used_range used_bytes(column_view c, std::size_t i, std::int64_t unused) noexcept {
    auto const layout = c.layout();
    auto const& b = c.buffers()[i];
    auto const* const begin = static_cast<std::byte const*>(b.data);
    if (begin == nullptr) return {};
    if (i >= static_cast<std::size_t>(layout.buffer_count)) {
        bool const is_last = i + 1 == c.buffers().size();  // the last buffer contains the lengths of the others
        return {begin,
                is_last ? 8 * static_cast<std::int64_t>(i - static_cast<std::size_t>(layout.buffer_count)) : b.bytes};
    }
    if (layout.buffers[i].kind == buffer_kind::bytes) return {begin, c.length() == 0 ? 0 : b.bytes};
    std::int64_t needed = 0;
    if (c.length() == 0 || !needed_bytes(c.type(), layout.buffers[i], c.offset() + c.length(), needed)) return {};
    auto const bits = layout.buffers[i].kind == buffer_kind::data ? item_bits(c.type()) : layout.buffers[i].bits;
    auto const before = bits == 1 ? unused / 8 : unused * (bits / 8);
    return {begin + before, needed - before};
}
/// Reads the size of a data buffer, which is the last offset or, for a view type, a length in the last buffer.
/// \return  false after an error, such as errc::bad_column for a negative size or one that exceeds the buffer
[[nodiscard]] inline bool read_end(column_view c, std::size_t i, column_path const& path, back_end_ref b,
                                   stream_token on, std::int64_t& out, reporter r) {
    auto const layout = c.layout();
    bool const is_variadic = i >= static_cast<std::size_t>(layout.buffer_count);
    auto const width = is_variadic || layout.buffers[1].bits == 64 ? 8 : 4;
    auto const item = is_variadic ? static_cast<std::int64_t>(i) - layout.buffer_count : c.offset() + c.length();
    auto const* const data = static_cast<std::byte const*>((is_variadic ? c.buffers().back() : c.buffers()[1]).data);
    staged_bytes last;
    if (!last.stage(data + item * width, width, c.device(), b, on, r)) return false;
    out = width == 8 ? load<std::int64_t>(last.data(), 0) : load<std::int32_t>(last.data(), 0);
    auto const there = c.buffers()[i].bytes;
    if (out >= 0 && (there < 0 || out <= there)) return true;
    message text{"its data ends at byte "};
    text << out << ", expected at least 0";
    if (there >= 0) text << " and at most " << there;
    return report(r, errc::bad_column, node_error(path, text));
}

/// Checks the stream on which the nodes of a column are ready; `other` is the device of a copy, or cpu.
[[nodiscard]] inline bool check_stream_of(column_view c, stream_token on, device other, reporter r) {
    if (!c.is_mixed()) return check_stream(on, c.device(), other, r);
    return for_each_node(c, column_path{c.name()}, [&](column_view n, column_path const&) {
        return check_stream(on, n.device(), n.device().type == device_type::cpu ? cpu : other, r);
    });
}

/// Waits on the host for the stream on which a column is ready. For a default stream, waits for that of each device of
/// the column, because any of them may write its pinned memory.
[[nodiscard]] inline bool wait_for_devices(column_view c, back_end_ref b, stream_token on, reporter r) {
    std::vector<device> waited;
    return for_each_node(c, column_path{c.name()}, [&](column_view n, column_path const&) {
        auto const d = n.device();
        if (!on.names_stream() || d.type == device_type::cpu) return true;
        for (device const done : waited)
            if (is_same_device(d, done)) return true;
        waited.push_back(d);
        return check_support(b, d, r) && wait_for(b, on.on_device(d), r);
    });
}

/// A range of bytes to be copied into an allocation, and its offset there.
struct copied_range {
    std::byte const* begin;
    std::int64_t bytes;
    std::int64_t at = 0;
};
/// Plans copies of the ranges in address order, which copy each byte once and keep the alignment. Because a copy must
/// not leave an allocation, only ranges that overlap, or that are close together in `readable`, are copied together,
/// with the gaps between them. Sorts the ranges, which are copied_range or derived from it.
/// \return  number of bytes of the allocation
template <class Ranges>
[[nodiscard]] std::int64_t lay_out(Ranges& ranges, std::vector<copied_range>& runs,
                                   std::span<std::byte const> readable = {}, std::int64_t largest_gap = 4096) {
    constexpr std::int64_t alignment = 64;
    auto const before = [](void const* a, void const* b) {
        return reinterpret_cast<std::uintptr_t>(a) < reinterpret_cast<std::uintptr_t>(b);
    };
    auto const round_up = [](std::int64_t n) { return (n + alignment - 1) / alignment * alignment; };
    auto const is_readable = [&](std::byte const* begin, std::byte const* end) {
        return !before(begin, readable.data()) && !before(readable.data() + readable.size(), end);
    };
    std::int64_t total = 0;
    std::span const all{ranges};
    using range = typename decltype(all)::element_type;
    static_assert(std::is_trivially_copyable_v<range>);
    auto const compare = [](void const* a, void const* b) {
        auto const x = reinterpret_cast<std::uintptr_t>(static_cast<range const*>(a)->begin),
                   y = reinterpret_cast<std::uintptr_t>(static_cast<range const*>(b)->begin);
        return x < y ? -1 : x > y;
    };
    if (!all.empty()) std::qsort(all.data(), all.size(), sizeof(range), compare);
    for (copied_range& r : all) {
        auto const* const end = runs.empty() ? nullptr : runs.back().begin + runs.back().bytes;
        bool const overlaps = end != nullptr && before(r.begin, end);
        bool const is_near =
            end != nullptr && is_readable(runs.back().begin, r.begin + r.bytes) && r.begin - end <= largest_gap;
        if (!overlaps && !is_near) {
            total = round_up(total) + static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(r.begin) % 16);
            runs.push_back({r.begin, 0, total});
        }
        auto& run = runs.back();
        r.at = run.at + (r.begin - run.begin);
        if (auto const bytes = r.begin - run.begin + r.bytes; bytes > run.bytes) run.bytes = bytes;
        total = run.at + run.bytes;
    }
    return round_up(total);
}

}  // namespace FERRY_NAMESPACE::detail
