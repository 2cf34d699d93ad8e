// ferry: share, which makes a tensor attachable by other processes.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/fwd.hpp>
#include <ferry/ipc/detail/make_share.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/ipc/shared.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

/// Options of `share`. An aggregate whose order of members is frozen.
struct share_options {
    /// Session that records the share; borrowed. Null: the share is neither found again nor attached as an alias.
    ipc::session* session = nullptr;
    /// if_needed: memory that cannot be shared in place is copied; never: that is an error; always: the tensor is
    /// copied into an allocation of its own.
    copy_policy copy{};
    /// Stream on which the data is ready. Default for an array: that of its adapter.
    stream_token ready_on{};
    /// Shares host memory in an anonymous segment read-only, and seals it: no process, including this one, can write
    /// it any more, and `session::sealed` is true in importers. Memory that is pinned (cudaHostRegister, a transfer) is
    /// not frozen; if it has been shared read-only before, this process cannot write it after the attempt either.
    bool freeze = false;
};

/// Shares a tensor with other processes of this user.
///
/// Host memory is shared in place when it was allocated by `shared_space` of the session, attached, or is part of an
/// open share. Otherwise it is copied into a new segment (`session_options::segments`: a file of mode 0600 in /dev/shm,
/// or an anonymous segment); dimensions of stride 0 are not expanded. Device memory is shared by the handles of a back
/// end (`ferry::cuda::shareable`), which copies memory that has no handle. Importers of a read-only tensor in host
/// memory map it without write access; for CUDA memory the flag is advisory.
///
/// Any process of this user can attach until the share is closed; if the segment is anonymous, any that has its file
/// descriptor. Copies are complete on return. Otherwise the host waits only if the back end has no event for
/// `ready_on`.
///
/// \param tensor   tensor to share; owned by the share on success, by the caller on failure
/// \param options  session, copy policy and stream
/// \param b        back end; a `handle_back_end` for device memory
/// \param where    source location for errors
/// \return         the share, with the descriptor for other processes
/// \throws error  errc::copy_needed, not_exportable, no_backend, out_of_memory, permission, unsupported_platform,
///                consumed, stream; errors of the back end; with `freeze`, errc::busy: a process has the memory mapped
///                with write access, or it is pinned, and errc::argument: it is not in an anonymous segment
/// \throws std::bad_alloc
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] shared share(managed_tensor&& tensor, share_options const& options = {}, BackEnd&& b = host_only,
                           std::source_location where = std::source_location::current()) {
    if (!tensor)
        detail::fail(errc::consumed, "ferry::ipc::share",
                     message{"the managed_tensor holds nothing: it was moved from or released"}, where);
    return detail::share_access::wrap(detail::make_share(
        std::move(tensor), detail::session_access::state(options.session), options.copy, options.freeze,
        options.ready_on, b, where));
}

/// Shares an array of any library.
/// \param array    rvalue, which is moved in, or lvalue, which needs array_traits::share
/// \param options  as for a tensor
/// \param b        back end
/// \param where    source location for errors
/// \return         the share
/// \throws error  errors of the overload for a tensor; errors of `to_dlpack`
template <class Array, class BackEnd = host_back_end const&>
    requires(!ferry::detail::has_own_exports<std::remove_cvref_t<Array>> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] shared share(Array&& array, share_options options = {}, BackEnd&& b = host_only,
                           std::source_location where = std::source_location::current()) {
    if constexpr (ferry::detail::is_adapted<std::remove_reference_t<Array>>()) {
        if (options.ready_on == stream_token{})
            options.ready_on = ferry::detail::ready_stream(array, b, {"ferry::ipc::share", where});
        // Importers wait for `ready_on` through the event of the share; no wait here.
        return ipc::share(
            ferry::to_dlpack(std::forward<Array>(array), request{.stream = stream_token::no_sync()}, b, where), options,
            b, where);
    }
}

/// Overload with default options.
template <class Tensor, class BackEnd>
    requires(!std::same_as<std::remove_cvref_t<Tensor>, column> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] shared share(Tensor&& tensor, BackEnd&& b, std::source_location where = std::source_location::current()) {
    return ipc::share(std::forward<Tensor>(tensor), share_options{}, b, where);
}

template <class Tensor, class... Rest>
    requires(std::is_lvalue_reference_v<Tensor> && std::same_as<std::remove_cvref_t<Tensor>, managed_tensor>)
shared share(Tensor&&, Rest&&...) FERRY_DELETED("a managed_tensor has one owner: std::move it in");

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
