// ferry: share for columns.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/concat.hpp>
#include <ferry/column/detail/move_arena.hpp>
#include <ferry/column/to.hpp>
#include <ferry/ipc/detail/column_nodes.hpp>
#include <ferry/ipc/detail/make_share.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/ipc/shared.hpp>
#include <ferry/ipc/space.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/wire/check.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>  // see region.hpp
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {
namespace detail {

/// Copies the column into one allocation that can be shared in place.
template <class BackEnd>
[[nodiscard]] column shareable_copy(column const& c, std::shared_ptr<session_state> const& session, BackEnd& b,
                                    stream_token on, std::source_location where) {
    using namespace ferry::detail;
    auto const place = c.device();
    if (is_host_accessible(place)) {
        if (place.type != device_type::cpu && on.names_stream()) {
            static_cast<void>(check_support(b, place, {share_api, where}));
            b.wait(on);  // mutant: ipc_column_pinned_wait
        }
        auto const view = c.view();
        host_fetcher fetcher;
        return fill_column(compaction_planner{fetcher, share_api, where}.run({&view, 1}, slices::together),
                           shared_space{session}, share_api, where);
    }
    if constexpr (handle_back_end<BackEnd>) {
        if (b.exports(place)) {
            auto const allocate = [&](std::size_t bytes) { return b.allocate_exportable(place, bytes, on); };
            return column_mover<BackEnd, decltype(allocate)>{b, allocate, place, place, on, where}.move(
                c, slices::together);
        }
    }
    fail_no_handles(place, where);
}

}  // namespace detail

/// Shares a column with other processes of this user: one memory that contains each buffer once, and a descriptor with
/// the format, names, metadata and offsets of the buffers, for `attach_column`.
///
/// Where nodes are slices of one memory, their common part is stored once, and the nodes have offsets into it. Only
/// values under different validity bitmaps are copied for each node, because the values of nulls are set to zero.
///
/// A whole column from `compact`, `to`, `attach_column` or a share is shared in place when its memory can be. Any other
/// is compacted into a copy: on the host directly into a segment (as for a tensor), on a device through the host into
/// memory that has a handle (see `column::to`). Importers map host memory without write access; for CUDA memory this is
/// advisory. Any process of this user can attach until the share is closed. Copies of host memory are complete on
/// return; when `ready_on` is a stream, importers wait for copies on a device through an event.
///
/// \param c        column to share; the share keeps its memory
/// \param options  as for a tensor
/// \param b        back end; a `handle_back_end` for device memory
/// \param where    source location for errors
/// \return         the share, with the descriptor for other processes
/// \throws error  errc::bad_column, overflow (see `compact`); bad_descriptor: a name is not UTF-8; as for a tensor
template <class Column, class BackEnd = host_back_end const&>
    requires(std::same_as<std::remove_cvref_t<Column>, column> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] shared share(Column const& c, share_options const& options = {}, BackEnd&& b = host_only,
                           std::source_location where = std::source_location::current()) {
    using ferry::detail::arena_part;
    auto session = detail::session_access::state(options.session);
    auto const on = options.ready_on.on_device(c.device());
    auto part = arena_part::of(c.view());
    column source = c;
    bool const is_fresh = part.bytes == 0;
    if (is_fresh) {
        if (options.copy == copy_policy::never && c.length() != 0)
            ferry::detail::fail(
                errc::copy_needed, detail::share_api,
                message{
                    "the column does not lie whole in one allocation, and a copy is forbidden: compact() it into a ferry::ipc::shared_space of the session"},
                where);
        source = detail::shareable_copy(c, session, b, on, where);
        auto const& arena = source.view().node().arena;
        part = {arena.data(), static_cast<std::int64_t>(arena.size())};
    }
    auto bytes = make_managed(
        column{source},
        tensor_view{
            static_cast<void const*>(part.begin), dtype_of<std::uint8_t>, {&part.bytes, 1}, {}, source.device()});
    auto made = detail::make_share(std::move(bytes), std::move(session),
                                   // mutant: ipc_column_ready
                                   is_fresh ? copy_policy::if_needed : options.copy, options.freeze, on, b, where);
    shared result = detail::share_access::wrap(made);  // closes the share if a later statement throws
    made->copied = made->copied || (is_fresh && part.bytes != 0);
    made->arena = std::get<wire::tensor>(made->description.root);
    made->description.root = detail::node_of(source.view(), part.begin);
    wire::check(made->description, where);
    return result;
}

/// Overload with default options.
template <class Column, class BackEnd>
    requires(std::same_as<std::remove_cvref_t<Column>, column> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] shared share(Column const& c, BackEnd&& b, std::source_location where = std::source_location::current()) {
    return ipc::share(c, share_options{}, b, where);
}

inline ferry::column shared::column(std::source_location where) const {
    constexpr auto api = "ferry::ipc::shared::column";
    if (!holds_column())
        ferry::detail::fail(errc::argument, api, message{"a tensor is shared here, or nothing: call tensor()"}, where);
    auto const v = state_->view();
    return detail::column_of(std::get<wire::node>(state_->description.root), static_cast<std::byte const*>(v.data()),
                             static_cast<std::size_t>(v.nbytes()), state_, v.device(), api, where);
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
