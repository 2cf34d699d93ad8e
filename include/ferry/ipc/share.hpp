// ferry: a tensor becomes one that other processes can attach.
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

namespace ferry::inline v0::ipc {

/// How to share. An aggregate whose order of members is frozen.
struct share_options {
    /// Who remembers it; without one the share is on its own, and is neither found again nor attached as an alias.
    ipc::session* session = nullptr;
    /// if_needed: memory that cannot be shared where it lies is copied, once; never: that is an error; always: a copy
    /// of this moment, in an allocation of its own.
    copy_policy copy{};
    /// Where the data is ready; for an array whose adapter says so itself, nothing need be said.
    stream_token ready_on{};
};

/// Shares a tensor with other processes of this user.
///
/// Memory of the host is shared where it lies when it came from `shared_space` of the session, from an attach or from a
/// share that is open; else it is copied into a segment of its own (`session_options::segments`: of mode 0600 in
/// /dev/shm, unless it is anonymous), broadcasts as what they repeat. Memory of devices is shared by the handles of a
/// back end (`ferry::cuda::shareable`), which copies what has none. Read-only stays so: importers of host memory map it
/// PROT_READ; on CUDA it is advisory. Anybody of this user can attach until it is closed; anonymous memory: who has its
/// file.
///
/// Owns `tensor` on success; on failure it is still the caller's. Finished copies on return. Nothing else synchronises,
/// but that the host waits for `ready_on` where the back end has no event for it.
/// \throws error  errc::copy_needed, not_exportable, no_backend, out_of_memory, permission, unsupported_platform,
///                consumed, stream; what the back end reports;  std::bad_alloc
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] shared share(managed_tensor&& tensor, share_options const& options = {}, BackEnd&& b = host_only,
                           std::source_location where = std::source_location::current()) {
    if (!tensor)
        detail::fail(errc::consumed, "ferry::ipc::share",
                     message{"the managed_tensor holds nothing: it was moved from or released"}, where);
    return detail::share_access::wrap(detail::make_share(
        std::move(tensor), detail::session_access::state(options.session), options.copy, options.ready_on, b, where));
}

/// The same for an array of any library: rvalues move in, lvalues need array_traits::share.
template <class Array, class BackEnd = host_back_end const&>
    requires(!ferry::detail::has_own_exports<std::remove_cvref_t<Array>> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] shared share(Array&& array, share_options options = {}, BackEnd&& b = host_only,
                           std::source_location where = std::source_location::current()) {
    if constexpr (ferry::detail::is_adapted<std::remove_reference_t<Array>>()) {
        if (options.ready_on == stream_token{}) options.ready_on = ferry::detail::ready_on(array);
        // Whoever attaches waits for `ready_on` by the share's event: nothing waits here.
        return ipc::share(
            ferry::to_dlpack(std::forward<Array>(array), request{.stream = stream_token::no_sync()}, b, where), options,
            b, where);
    }
}

/// The same, with nothing to say but the back end.
template <class Tensor, class BackEnd>
    requires(!std::same_as<std::remove_cvref_t<Tensor>, column> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] shared share(Tensor&& tensor, BackEnd&& b, std::source_location where = std::source_location::current()) {
    return ipc::share(std::forward<Tensor>(tensor), share_options{}, b, where);
}

template <class Tensor, class... Rest>
    requires(std::is_lvalue_reference_v<Tensor> && std::same_as<std::remove_cvref_t<Tensor>, managed_tensor>)
shared share(Tensor&&, Rest&&...) FERRY_DELETED("a managed_tensor has one owner: std::move it in");

}  // namespace ferry::inline v0::ipc
