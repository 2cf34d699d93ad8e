// ferry: attach_column and attach_list, which map a column, or a list of tensors and columns, that another process
// shares.
#pragma once

#include <ferry/column/column.hpp>
#include <ferry/ipc/attach.hpp>

namespace FERRY_NAMESPACE::ipc {
/// Attaches a column that another process of this user shares, without a copy.
///
/// The rules of `attach` apply. Columns, slices and children share the mappings of all memories; the mappings are
/// removed with the last of them, on any thread. The column is read-only; host memory is mapped without write access.
///
/// Each child is on the device on which the exporter has it; a child without bytes is on the device of the first
/// memory. With `options.device`, all device memory is opened on that device, except memory of pools. Host memory stays
/// on the host.
///
/// Before any buffer is read, each is checked against the memory that exists, and the structure of the column against
/// the sizes of its buffers. Values are not checked: call `validate` for a full check when the exporter is not trusted.
///
/// \param from     descriptor of a column
/// \param options  as for `attach`
/// \param b        back end; a `handle_back_end` for device memory
/// \return         column that keeps the mapping
/// \throws error  errc::bad_column, with the path of the node; errc::argument: the descriptor of a tensor; as `attach`
[[nodiscard]] FERRY_INLINE column attach_column(wire::descriptor const& from, attach_options const& options = {},
                                                handle_ref b = host_only,
                                                std::source_location where = std::source_location::current());

template <class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] column attach_column(wire::descriptor const& from, BackEnd&& b,
                                   std::source_location where = std::source_location::current()) {
    return ipc::attach_column(from, attach_options{}, b, where);
}

/// Attaches the tensors and columns of a list that another process of this user shares, without a copy.
///
/// The rules of `attach` and `attach_column` apply. The items share the mappings of all memories, so the exporter
/// counts readers until the last item is dropped. A segment is mapped with write access if a tensor in it may be
/// written.
///
/// \param from     descriptor of a list; that of one tensor or column is a list of one
/// \param options  as for `attach`
/// \param b        back end; a `handle_back_end` for device memory
/// \return         tensors and columns in the order in which they were shared
/// \throws error  as `attach` and `attach_column`
/// \throws std::bad_alloc
[[nodiscard]] FERRY_INLINE std::vector<item> attach_list(wire::descriptor const& from,
                                                         attach_options const& options = {}, handle_ref b = host_only,
                                                         std::source_location where = std::source_location::current());

template <class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] std::vector<item> attach_list(wire::descriptor const& from, BackEnd&& b,
                                            std::source_location where = std::source_location::current()) {
    return ipc::attach_list(from, attach_options{}, b, where);
}

}  // namespace FERRY_NAMESPACE::ipc

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/attach_column.ipp>
#endif
