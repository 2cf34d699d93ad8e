// ferry: attach, which maps a tensor that another process shares.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/ipc/detail/open_group.hpp>
#include <ferry/ipc/handle_ref.hpp>
#include <ferry/ipc/options.hpp>
#include <ferry/ipc/range.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/wire/check.hpp>
#include <ferry/wire/descriptor.hpp>

#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>
#include <variant>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// Attaches a tensor that another process of this user shares, without a copy.
///
/// The descriptor may come from an untrusted source: every bound is checked against the memory that exists, except what
/// the driver does not report to importers of CUDA pool memory, such as its size. The exporter is trusted not to shrink
/// the memory, and has the same user ID; an anonymous segment is sealed, and its size cannot change. Read-only tensors
/// in host memory are mapped without write access. A descriptor of this process and session returns an alias that
/// shares the exporter's owner.
///
/// Does not block, except for the wait that `attach_options::stream` describes, and to unmap cached device memory that
/// is no longer shared while work queued here still uses it. The deleter of the last tensor of such memory waits
/// likewise. Deleters may run on any thread.
///
/// \param from     descriptor of a tensor, from `shared::descriptor`
/// \param options  session, stream, device and file descriptors
/// \param b        back end; a `handle_back_end` for device memory
/// \param where    source location for errors
/// \return         tensor that keeps the mapping
/// \throws error  errc::bad_descriptor: malformed, or its bounds exceed the memory;
///                errc::exporter_gone: the share is closed, or the exporting process has exited;
///                errc::permission: memory of another user, or a required file descriptor is missing;
///                errc::stale_handle; errc::same_process: device memory of this process, shared by another session;
///                errc::no_backend; errc::argument: the descriptor of a column; errc::out_of_memory;
///                errc::stream: a null stream, or one of another device;
///                errors of the back end
/// \throws std::bad_alloc
[[nodiscard]] inline managed_tensor attach(wire::descriptor const& from, attach_options const& options = {},
                                           handle_ref b = host_only,
                                           std::source_location where = std::source_location::current()) {
    wire::check(from, where);
    auto const* const t = std::get_if<wire::tensor>(&from.root);
    if (t == nullptr)
        detail::fail(errc::argument, detail::attach_api,
                     message{"the descriptor is a column's, not a tensor's: call ferry::ipc::attach_column"}, where);
    if (from.memories.size() != 1 || t->memory != 0)
        detail::fail(errc::bad_descriptor, detail::attach_api,
                     message{"the descriptor of a tensor must have one memory, not "}
                         << std::uint64_t{from.memories.size()} << ": get a new descriptor from the exporter",
                     where);
    std::uint32_t const only = 0;
    detail::memory_range found;
    detail::attach_call call{from, options, has(t->flags, flags::read_only), where};
    auto held = detail::open_group(call, {&only, 1}, b, [&](auto, auto const& memory) { found = memory; });
    return make_managed(std::move(held), detail::view_of(*t, found.begin, found.device),
                        found.is_read_only ? flags::read_only : flags::none, version::current, where);
}

[[nodiscard]] inline managed_tensor attach(wire::descriptor const& from, handle_ref b,
                                           std::source_location where = std::source_location::current()) {
    return ipc::attach(from, attach_options{}, b, where);
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
