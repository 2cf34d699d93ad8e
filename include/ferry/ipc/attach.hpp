// ferry: attach, which maps a tensor that another process shares.
#pragma once

#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/options.hpp>
#include <ferry/tensor/managed.hpp>

#include <source_location>

namespace FERRY_NAMESPACE::ipc {

/// Attaches a tensor that another process of this user shares, without a copy.
///
/// The descriptor may come from an untrusted source: every bound is checked against the memory that exists, except what
/// the driver does not report to importers of CUDA pool memory, such as its size. The exporter is trusted not to shrink
/// the memory, and has the same user ID; an anonymous segment is sealed, and its size cannot change. Read-only tensors
/// in host memory are mapped without write access. A descriptor of this process and session returns an alias that
/// shares the exporter's owner.
///
/// Does not block, except for the wait that `attach_options::stream` describes, and when it unmaps cached device memory
/// that is no longer shared: then it waits for the work of this process that uses the memory. The deleter of the last
/// tensor of such memory waits likewise. Deleters may run on any thread.
///
/// \param from     descriptor of a tensor, from `shared::descriptor`
/// \param options  session, stream, device and file descriptors
/// \param b        back end; a `handle_back_end` for device memory
/// \return         tensor that keeps the mapping
/// \throws error  errc::bad_descriptor: malformed, or its bounds exceed the memory;
///                errc::exporter_gone: the share is closed, or the exporting process has exited;
///                errc::permission: memory of another user, or a required file descriptor is missing;
///                errc::stale_handle; errc::same_process: device memory of this process, shared by another session;
///                errc::no_backend; errc::argument: the descriptor of a column; errc::out_of_memory;
///                errc::stream: a null stream, or one of another device;
///                errors of the back end
/// \throws std::bad_alloc
[[nodiscard]] FERRY_INLINE managed_tensor attach(wire::descriptor const& from, attach_options const& options = {},
                                                 handle_ref b = host_only,
                                                 std::source_location where = std::source_location::current());

template <class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor attach(wire::descriptor const& from, BackEnd&& b,
                                    std::source_location where = std::source_location::current()) {
    return ipc::attach(from, attach_options{}, b, where);
}

}  // namespace FERRY_NAMESPACE::ipc

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/attach.ipp>
#endif
