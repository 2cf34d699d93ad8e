// ferry: attach, which maps a tensor that another process shares.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/ipc/detail/open_share.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/wire/descriptor.hpp>

#include <optional>
#include <source_location>
#include <span>
#include <type_traits>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// Options of `attach` and `attach_column`. An aggregate whose order of members is frozen.
struct attach_options {
    /// Session that caches the mapping; borrowed. Null: the mapping is made for this tensor alone.
    ipc::session* session = nullptr;
    /// Stream on which the data will be used. It waits for the work that the exporter queued, and when the tensor is
    /// dropped an event on it is passed to the exporter. Without a stream the host waits, and no work that uses the
    /// tensor may be pending when it is dropped. A tensor dropped while its stream is captured counts as read until
    /// this process ends, because the time at which a graph runs is unknown.
    stream_token stream{};
    /// Device on which to open device memory; empty: the device of the exporter, found by its UUID. Memory of a CUDA
    /// pool stays on its device, and this device gets access to it.
    std::optional<ferry::device> device{};
    /// File descriptors received with the descriptor, one for each of its memories, -1 where none is needed: the file
    /// of a CUDA pool, or `shared::file` of an anonymous segment. If both are needed, `shared::files` follow the files
    /// of all memories. Borrowed during the call.
    std::span<int const> files{};
};

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
///                errors of the back end
/// \throws std::bad_alloc
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor attach(wire::descriptor const& from, attach_options const& options = {},
                                    BackEnd&& b = host_only,
                                    std::source_location where = std::source_location::current()) {
    return detail::open_share(from, detail::session_access::state(options.session), options.stream,
                              {options.device, options.files}, b, where);
}

/// Overload with default options.
template <class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor attach(wire::descriptor const& from, BackEnd&& b,
                                    std::source_location where = std::source_location::current()) {
    return ipc::attach(from, attach_options{}, b, where);
}

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
