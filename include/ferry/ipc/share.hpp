// ferry: share, which makes a tensor attachable by other processes.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/ipc/shared.hpp>

namespace FERRY_NAMESPACE::ipc {

namespace detail {

/// A share, and the place to which the caller moves the tensor that owns the memory, as the last step (D25).
struct view_share {
    shared made;
    std::shared_ptr<managed_tensor> owner;
};

/// Shares the memory of a view. `in_place` is whether the memory may be shared without a copy.
[[nodiscard]] FERRY_INLINE view_share share_view(tensor_view v, bool in_place, share_options const& how, handle_ref b,
                                                 std::source_location where);

/// Shares an array that owns its elements, and moves it into the share last.
template <class Array>
[[nodiscard]] shared share_moved(Array& array, tensor_view const& v, share_options const& how, handle_ref b,
                                 std::source_location where) {
    ferry::detail::reporter const r{share_api, where};
    static_cast<void>(ferry::detail::check_view(v, r));
    void const* const begin = &reinterpret_cast<unsigned char const&>(array);
    bool const keeps_address = !ferry::detail::is_within(v.data(), begin, sizeof array);
    auto const* const data = v.is_empty() ? nullptr : v.data();
    auto share = share_view(v, keeps_address, how, b, where);
    *share.owner = ferry::detail::share_tensor(std::move(array), r);
    if (keeps_address && share.owner->view().data() != data)
        ferry::detail::fail(
            errc::argument, share_api,
            message{"the elements of the array did not move with it: share it as an lvalue, or share a copy"}, where);
    return std::move(share.made);
}

}  // namespace detail

/// Shares a tensor with other processes of this user.
///
/// Host memory is shared in place when it was allocated by `shared_space` of the session, attached, or is part of an
/// open share. Otherwise it is copied into a new segment (`session_options::segments`: a file of mode 0600 in /dev/shm,
/// or an anonymous segment); dimensions of stride 0 are not expanded. Device memory is shared by the handles of a back
/// end (`ferry::cuda::shareable`), which copies memory that has no handle; memory that the session has attached is
/// shared by the handle of its exporter, which then keeps it for all importers. Importers of a read-only tensor in host
/// memory map it without write access; for CUDA memory the flag is advisory.
///
/// Any process of this user can attach until the share is closed. If the segment is anonymous, only processes that have
/// its file descriptor can. Copies are complete on return. Otherwise the host waits only if the back end has no event
/// for `ready_on`.
///
/// \param tensor   tensor to share; owned by the share on success, by the caller on failure
/// \param options  session, copy policy and stream
/// \param b        back end; a `handle_back_end` for device memory
/// \return         the share, with the descriptor for other processes
/// \throws error  errc::copy_needed, not_exportable, no_backend, out_of_memory, permission, unsupported_platform,
///                consumed, stream; errors of the back end; with `freeze`, errc::busy: a process has the memory mapped
///                with write access, or it is pinned, and errc::argument: it is not in an anonymous segment
/// \throws std::bad_alloc
[[nodiscard]] FERRY_INLINE shared share(managed_tensor&& tensor, share_options const& options = {},
                                        handle_ref b = host_only,
                                        std::source_location where = std::source_location::current());

/// Shares an array of any library.
/// \param array    an rvalue is moved into the share, and is unchanged on failure; an lvalue needs array_traits::share
/// \param options  as for a tensor
/// \param b        back end
/// \return         the share
/// \throws error  errors of the overload for a tensor; errors of `to_dlpack`
template <class Array, class BackEnd = host_back_end const&>
    requires(!ferry::detail::has_own_exports<std::remove_cvref_t<Array>> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] shared share(Array&& array, share_options options = {}, BackEnd&& b = host_only,
                           std::source_location where = std::source_location::current()) {
    if constexpr (ferry::detail::is_adapted<std::remove_reference_t<Array>>()) {
        if (options.ready_on == stream_token{})
            options.ready_on = ferry::detail::ready_stream(array, b, {"ferry::ipc::share", where});
        if constexpr (!std::is_lvalue_reference_v<Array>) {
            auto const described = view_of(array);
            tensor_view const& v = described;
            bool can_share = false;
            static_cast<void>(ferry::detail::check_shareable<Array>(array, v, can_share, {detail::share_api, where}));
            if (can_share) return detail::share_moved(array, v, options, b, where);
        }
        // Importers wait for `ready_on` through the event of the share; no wait here.
        return ipc::share(
            ferry::to_dlpack(std::forward<Array>(array), request{.stream = stream_token::no_sync()}, b, where), options,
            b, where);
    }
}

template <class Tensor, class BackEnd>
    requires(!std::same_as<std::remove_cvref_t<Tensor>, column> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] shared share(Tensor&& tensor, BackEnd&& b, std::source_location where = std::source_location::current()) {
    return ipc::share(std::forward<Tensor>(tensor), share_options{}, b, where);
}

template <class Tensor, class... Rest>
    requires(std::is_lvalue_reference_v<Tensor> && std::same_as<std::remove_cvref_t<Tensor>, managed_tensor>)
shared share(Tensor&&, Rest&&...) FERRY_DELETED("a managed_tensor has one owner: std::move it in");

}  // namespace FERRY_NAMESPACE::ipc

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/share.ipp>
#endif
