// ferry: share for columns, and for lists of tensors and columns.
#pragma once

#include <ferry/column/column.hpp>
#include <ferry/ipc/share.hpp>

namespace FERRY_NAMESPACE {
namespace detail {

template <>
inline constexpr bool has_own_exports<std::vector<ipc::item>> = true;

}  // namespace detail
namespace ipc {
namespace detail {

[[nodiscard]] FERRY_INLINE shared share_column(column const& c, share_options const& options, handle_ref b,
                                               std::source_location where);

}  // namespace detail

/// Shares a column with other processes of this user, without a copy where possible. The descriptor, for
/// `attach_column`, has the format, names, metadata, offset and length of each node, and the place of each buffer.
///
/// The descriptor has one memory for each allocation. An allocation is shared as a whole, so a slice shares all items.
/// Only memory that other processes cannot open is copied: host memory outside of the session's `shared_space`,
/// attachments and open shares; pinned and managed memory, which is copied to the host; and device memory for which the
/// back end has no handle. A copy has each byte once, in one allocation. The copy of a slice omits the unused items
/// where that is possible without reading offsets; therefore, `compact` a small slice of text or lists first.
///
/// The children of a struct may be on different devices (`make_struct`); each is shared on its device. `ready_on` then
/// applies to all of them: it is a stream handle, for which the host waits if memory must be copied, or it stands for
/// the default stream of each device.
///
/// Importers map host memory without write access; for CUDA memory this is advisory. Any process of this user can
/// attach until the share is closed. Copies are complete on return; importers wait for the other work on `ready_on`.
///
/// With `share_options::freeze`, the memories are frozen one after the other, so when one of them fails, others may
/// remain frozen.
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

/// Shares a list of tensors and columns as one descriptor, for `attach_list`, such as the weights of a model. Lengths,
/// types and devices may differ.
///
/// Each item is shared as if alone, but each allocation is shared only once, so an importer maps it once for all items
/// in it. Memory that must be copied is copied into one allocation for each device; on the host, writable tensors are
/// copied into another allocation than read-only tensors and columns. Importers map a segment without write access if
/// no tensor in it may be written.
///
/// All items are ready on `ready_on`, which applies as to the children of a column on several devices.
///
/// \param items    tensors and columns, in the order of `attach_list`; owned by the share on success, unchanged on
///                 failure
/// \param options  as for a tensor
/// \param b        back end; a `handle_back_end` for device memory
/// \return         the share, with the descriptor for other processes; `shared::view` and `shared::tensor` return the
///                 bytes of its first memory
/// \throws error  as for a tensor and for a column
/// \throws std::bad_alloc
[[nodiscard]] FERRY_INLINE shared share(std::vector<item>&& items, share_options const& options = {},
                                        handle_ref b = host_only,
                                        std::source_location where = std::source_location::current());

template <class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] shared share(std::vector<item>&& items, BackEnd&& b,
                           std::source_location where = std::source_location::current()) {
    return ipc::share(std::move(items), share_options{}, b, where);
}

}  // namespace ipc
}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/share_column.ipp>
#endif
