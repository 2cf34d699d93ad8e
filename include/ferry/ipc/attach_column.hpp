// ferry: attach_column, which maps a column that another process shares.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/detail/column_nodes.hpp>
#include <ferry/ipc/detail/open_share.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/wire/check.hpp>
#include <ferry/wire/descriptor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // a column shares its owner
#include <source_location>
#include <type_traits>
#include <utility>
#include <variant>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// Attaches a column that another process of this user shares, without a copy.
///
/// The rules of `attach` apply. Columns, slices and children share the mapping, which the last of them removes, on any
/// thread. The column is read-only; host memory is mapped without write access.
///
/// Before any buffer is read, each is checked against the memory that exists, and the structure of the column against
/// the sizes of its buffers. Values are not checked: call `validate` for a full check when the exporter is not trusted.
///
/// \param from     descriptor of a column
/// \param options  as for `attach`
/// \param b        back end; a `handle_back_end` for device memory
/// \param where    source location for errors
/// \return         column that keeps the mapping
/// \throws error  errc::bad_column, with the path of the node; errc::argument: the descriptor of a tensor; as `attach`
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] column attach_column(wire::descriptor const& from, attach_options const& options = {},
                                   BackEnd&& b = host_only,
                                   std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::ipc::attach_column";
    wire::check(from, where);
    auto const* const node = std::get_if<wire::node>(&from.root);
    if (node == nullptr)
        ferry::detail::fail(errc::argument, api,
                            message{"the descriptor is a tensor's, not a column's: call ferry::ipc::attach"}, where);
    if (from.memories.size() != 1)
        ferry::detail::fail(
            errc::bad_descriptor, api,
            message{"a column lies in one memory, and the descriptor has "} << std::uint64_t{from.memories.size()},
            where);
    auto const bytes = from.memories[0].length;
    wire::descriptor arena{from.major, from.minor, from.from, from.memories, wire::tensor{}};
    auto& t = std::get<wire::tensor>(arena.root);
    t.dtype = dtype_of<std::uint8_t>;
    t.shape = {static_cast<std::int64_t>(bytes)};
    t.flags = flags::read_only;
    auto held = std::make_shared<managed_tensor>(
        detail::open_share(arena, detail::session_access::state(options.session), options.stream,
                           {options.device, options.files.empty() ? -1 : options.files[0]}, b, where));
    auto const place = held->device();
    auto const* const begin = static_cast<std::byte const*>(held->view().data());
    return detail::column_of(*node, begin, static_cast<std::size_t>(bytes), std::move(held), place, api, where);
}

/// Overload with default options.
template <class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] column attach_column(wire::descriptor const& from, BackEnd&& b,
                                   std::source_location where = std::source_location::current()) {
    return ipc::attach_column(from, attach_options{}, b, where);
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
