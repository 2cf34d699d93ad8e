// ferry: a tensor of another process becomes one of this process.
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

namespace ferry::inline v0::ipc {

/// How to attach. An aggregate whose order of members is frozen.
struct attach_options {
    /// Who remembers the mapping; without one it is made for this tensor alone.
    ipc::session* session = nullptr;
    /// Where the data will be used: it waits for the exporter's work, and the exporter can wait for what is queued on
    /// it when the tensor is dropped. Without one the host waits, and nothing may be pending when the tensor is
    /// dropped. A tensor that is dropped while its stream is captured counts as read until this process ends: nobody
    /// can be told when its work is done.
    stream_token stream{};
    /// Where to open memory of a device; nothing: on the one that it is on. Memory of a CUDA pool stays where it is,
    /// and the device named here can use it.
    std::optional<ferry::device> device{};
    /// Open files that came beside the descriptor, one for each of its memories, -1 where none is needed: of a CUDA
    /// pool its descriptor, of an anonymous segment `shared::file`. Borrowed.
    std::span<int const> files{};
};

/// Attaches a tensor that another process of this user shares, without a copy. A managed_tensor like any other:
/// dropping it lets go of the memory, on any thread.
///
/// Every bound of the descriptor is checked against the memory that is really there: it may come from anywhere. (What
/// the driver does not tell an importer of memory of a CUDA pool, its size above all, is the exporter's word.) But its
/// exporter is trusted to leave the memory as large as it is, unless that is an anonymous segment, whose size is
/// sealed: only processes of this user can be one. Read-only tensors of the host are mapped so that writing faults.
/// What this process shared by the same session is an alias that keeps the exporter's memory. Does not block, but for
/// the wait of `attach_options::stream`, and to unmap memory of a device that nobody can attach any more, while work
/// queued here still uses it. Dropping the last tensor of such memory waits likewise.
///
/// \throws error  errc::bad_descriptor; exporter_gone: closed, or its process has ended; permission: another user's, or
///                a file that must come along did not; stale_handle; same_process: memory of a device, shared here by
///                another session; no_backend; argument (a descriptor of a column); out_of_memory; what the back end
///                reports;  std::bad_alloc
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor attach(wire::descriptor const& from, attach_options const& options = {},
                                    BackEnd&& b = host_only,
                                    std::source_location where = std::source_location::current()) {
    return detail::open_share(from, detail::session_access::state(options.session), options.stream,
                              {options.device, options.files.empty() ? -1 : options.files[0]}, b, where);
}

/// The same, with nothing to say but the back end.
template <class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor attach(wire::descriptor const& from, BackEnd&& b,
                                    std::source_location where = std::source_location::current()) {
    return ipc::attach(from, attach_options{}, b, where);
}

}  // namespace ferry::inline v0::ipc
