// ferry: share for columns.
#pragma once

#include <ferry/column/column.hpp>
#include <ferry/ipc/share.hpp>

namespace FERRY_NAMESPACE::ipc {
namespace detail {

[[nodiscard]] FERRY_INLINE shared share_column(column const& c, share_options const& options, handle_ref b,
                                               std::source_location where);

}  // namespace detail

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
/// \return         the share, with the descriptor for other processes
/// \throws error  errc::bad_column: offsets that lead out of their data; copy_needed, not_exportable: the message names
///                the buffer; bad_descriptor: a name is not UTF-8; as for a tensor
template <class Column>
    requires std::same_as<Column, column>
[[nodiscard]] shared share(Column const& c, share_options const& options = {}, handle_ref b = host_only,
                           std::source_location where = std::source_location::current()) {
    return detail::share_column(c, options, b, where);
}

template <class Column, class BackEnd>
    requires(std::same_as<Column, column> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] shared share(Column const& c, BackEnd&& b, std::source_location where = std::source_location::current()) {
    return ipc::share(c, share_options{}, b, where);
}

}  // namespace FERRY_NAMESPACE::ipc

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/share_column.ipp>
#endif
