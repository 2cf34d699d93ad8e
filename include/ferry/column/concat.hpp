// ferry: columns without slices, written into one allocation.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/compaction.hpp>
#include <ferry/column/detail/fill.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/plan_compaction.hpp>
#include <ferry/column/detail/same_type.hpp>
#include <ferry/space/buffer.hpp>

#include <cstddef>
#include <memory>  // the arena is shared by what is made of it
#include <source_location>
#include <span>
#include <utility>
#include <vector>  // one entry for each chunk

namespace ferry::inline v0 {
namespace detail {

/// The tree of a plan whose arena begins at `begin` and belongs to `owner`.
[[nodiscard]] inline std::shared_ptr<column_tree> make_tree(compaction const& plan, std::byte const* begin,
                                                            std::shared_ptr<void const> owner, device on,
                                                            char const* api, std::source_location where) {
    auto tree = std::make_shared<column_tree>();
    tree->owner = std::move(owner);
    build(*tree, planned_source{plan, 0, begin}, on, api, where);
    for (std::size_t i = 0; begin != nullptr && i < tree->node_count; ++i)
        tree->nodes[i].arena = {begin, static_cast<std::size_t>(plan.arena)};
    return tree;
}

/// Writes what was planned into memory of a space that the host can write.
template <memory_space Space>
[[nodiscard]] column fill_column(compaction const& plan, Space space, char const* api, std::source_location where) {
    auto const owner = std::make_shared<buffer<Space>>(static_cast<std::size_t>(plan.arena), std::move(space));
    auto* const begin = static_cast<std::byte*>(owner->data());
    arena_filler{plan, begin, api, where}.run();
    return column_access::make(make_tree(plan, begin, owner, owner->device(), api, where));
}

template <memory_space Space>
[[nodiscard]] column concat(std::span<column_view const> chunks, Space space, char const* api,
                            std::source_location where) {
    if (!is_host_accessible(space.device()))
        fail(errc::device, api,
             message{"the space has memory on "} << name(space.device().type)
                                                 << ", which the host cannot write: use to()",
             where);
    for (auto const& c : chunks) c.require_host(api, where);
    for (std::size_t i = 1; i < chunks.size(); ++i)
        type_comparison{i, api, where}.require(chunks[0], chunks[i], column_path{chunks[0].name()});
    host_fetcher fetcher;
    return fill_column(compaction_planner{fetcher, api, where}.run(chunks), std::move(space), api, where);
}

}  // namespace detail

/// A copy of the column in one allocation of the space: offsets are 0, validity and bools begin at bit 0, offsets at 0;
/// children, text and data of views are cut to what the items use, dictionaries are whole. Buffers begin at multiples
/// of 64 bytes; padding and nulls are zero; what several children share is there once. Nulls are counted, and a
/// validity without any is left out.
///
/// On the host; nothing may be pending. Reads validity, offsets, run ends, type ids and views, and checks each before
/// it is followed: whatever they are, no byte outside of what the column says is read. Other values are copied as they
/// are.
///
/// \throws error  errc::bad_column (with the node's path), not_accessible, overflow, device (of the space);
///                std::bad_alloc
template <memory_space Space = host_space>
[[nodiscard]] column compact(column_view c, Space space = {},
                             std::source_location where = std::source_location::current()) {
    return detail::concat({&c, 1}, std::move(space), "ferry::compact", where);
}

/// One column of the items of all chunks, written as `compact` does; a single chunk is given back as it is. Names and
/// metadata are the first one's; it is nullable if a chunk is. Equal dictionaries become one; different ones follow
/// each other in a new one, whose values may repeat. Buffers of views and runs stay as many as they are.
///
/// \throws error  errc::argument: no chunk, or chunks of different types; overflow: offsets, indices or run ends of the
///                type cannot count that far; as compact
template <memory_space Space = host_space>
[[nodiscard]] column concat(std::span<column const> chunks, Space space = {},
                            std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::concat";
    if (chunks.empty())
        detail::fail(errc::argument, api, message{"there is no chunk, and so no type: give one of length 0"}, where);
    if (chunks.size() == 1) return chunks[0];
    std::vector<column_view> const views(chunks.begin(), chunks.end());
    return detail::concat(views, std::move(space), api, where);
}

}  // namespace ferry::inline v0
