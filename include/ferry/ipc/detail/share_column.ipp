// ferry: the engine of ipc/share_column.hpp.
#pragma once

#include <ferry/ipc/share_column.hpp>

#include <ferry/base/error.hpp>
#include <ferry/ipc/detail/column_nodes.hpp>
#include <ferry/ipc/detail/column_sharing.hpp>
#include <ferry/ipc/session.hpp>

#include <cstddef>
#include <type_traits>
#include <variant>
#include <vector>  // a column may have several memories

namespace FERRY_NAMESPACE::ipc {
namespace detail {

FERRY_INLINE shared share_column(column const& c, share_options const& options, handle_ref b,
                                 std::source_location where) {
    return share_access::wrap(column_sharing{c, options, b, where}.run());
}

}  // namespace detail

FERRY_INLINE ferry::column shared::column(std::source_location where) const {
    constexpr auto api = "ferry::ipc::shared::column";
    if (!holds_column())
        ferry::detail::fail(errc::argument, api, message{"a tensor is shared here, or nothing: call tensor()"}, where);
    std::vector<detail::memory_range> ranges(state_->description.memories.size());
    for_each_part([&](auto const& part) {
        for (auto const& [m, begin, number] : part.memories)
            ranges[number] = {begin, static_cast<std::size_t>(m.length), part.device};
    });
    return detail::column_of(std::get<wire::node>(state_->description.root), ranges, state_, api, where);
}

}  // namespace FERRY_NAMESPACE::ipc
