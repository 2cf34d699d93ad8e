// ferry: share for columns.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/ipc/detail/column_nodes.hpp>
#include <ferry/ipc/detail/column_sharing.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/ipc/shared.hpp>
#include <ferry/space/back_end.hpp>

#include <concepts>
#include <cstddef>
#include <source_location>
#include <type_traits>
#include <variant>
#include <vector>  // a column may have several memories

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// Shares a column with other processes of this user: its buffers where they lie, and a descriptor with the format,
/// names, metadata, offset and length of each node and the place of each buffer, for `attach_column`.
///
/// The descriptor has one memory for each allocation. An allocation is shared as a whole, so that a slice shares all
/// items. Only memory that other processes cannot open is copied, on its own device: host memory outside of the
/// session's `shared_space`, attachments and open shares; pinned and managed memory, to the host; device memory for
/// which the back end has no handle. A copy has each byte once, in one allocation. Of a slice, the items that are not
/// used are left out where that is possible without reading offsets: `compact` a small slice of text or lists first.
///
/// The children of a struct may be on different devices (`make_struct`); each is shared on its device. All of them are
/// then ready on `ready_on`: a stream handle, for which the host waits if memory must be copied, or the default stream
/// of each device.
///
/// Importers map host memory without write access; for CUDA memory this is advisory. Any process of this user can
/// attach until the share is closed. Copies are complete on return; importers wait for the other work on `ready_on`.
///
/// With `share_options::freeze`, each memory is frozen in turn: if one of them is refused, others may remain frozen.
///
/// \param c        column to share; the share keeps its memory
/// \param options  as for a tensor
/// \param b        back end; a `handle_back_end` for device memory
/// \param where    source location for errors
/// \return         the share, with the descriptor for other processes
/// \throws error  errc::bad_column: offsets that lead out of their data; copy_needed, not_exportable: the message names
///                the buffer; bad_descriptor: a name is not UTF-8; as for a tensor
template <class Column>
    requires std::same_as<Column, column>
[[nodiscard]] shared share(Column const& c, share_options const& options = {}, handle_ref b = host_only,
                           std::source_location where = std::source_location::current()) {
    return detail::share_access::wrap(detail::column_sharing{c, options, b, where}.run());
}

template <class Column>
    requires std::same_as<Column, column>
[[nodiscard]] shared share(Column const& c, handle_ref b,
                           std::source_location where = std::source_location::current()) {
    return ipc::share(c, share_options{}, b, where);
}

inline ferry::column shared::column(std::source_location where) const {
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

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
