// ferry: subscriber, which follows the frames of a publisher.
#pragma once

#include <ferry/fwd.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/options.hpp>
#include <ferry/ipc/unique_fd.hpp>
#include <ferry/tensor/managed.hpp>

#include <chrono>
#include <string_view>

namespace FERRY_NAMESPACE::ipc {

/// A frame of a topic.
template <class T>
struct frame {
    T value;                       ///< `managed_tensor` or `column`; while it exists its slot is not written
    std::uint64_t generation = 0;  ///< increases; numbers that are missing are frames that this subscriber missed
};

/// Follows a name: before it has a publisher, and from one publisher to the next. Keeps the mapping of each slot. The
/// frames may outlive it. Not thread-safe.
class subscriber {
   public:
    /// Does not require that the name has a publisher.
    /// \param name  1 to 200 bytes, as the publisher's
    /// \param how   directory
    /// \throws error  errc::argument: not a name; errc::permission: the directory is not this user's alone
    FERRY_INLINE explicit subscriber(std::string_view name, topic_options const& how = {});
    /// Follows the publisher that has sent `publisher::files` over a socket, and no other.
    /// \param files  the received files, in order; owned on success
    /// \throws error  errc::bad_descriptor: the first is not the file of a topic
    FERRY_INLINE explicit subscriber(std::vector<unique_fd>&& files);
    subscriber(subscriber const&) = delete;
    subscriber& operator=(subscriber const&) = delete;
    FERRY_INLINE ~subscriber();

    /// Returns the newest tensor that this subscriber has not returned yet, and waits for one.
    ///
    /// \param limit  longest wait
    /// \param how    as for `attach`; default session: that of this subscriber, which may be any but that of the
    ///               publisher, whose attaches are not counted; default files: those received
    /// \param b      back end; a `handle_back_end` for device memory
    /// \return       the frame; empty: none within `limit`
    /// \throws error  errc::bad_descriptor: the file is damaged; errors of `attach`, but for those of a publisher that
    ///                has ended
    /// \throws std::bad_alloc
    [[nodiscard]] FERRY_INLINE std::optional<frame<managed_tensor>> next(std::chrono::nanoseconds limit,
                                                                         attach_options const& how = {},
                                                                         handle_ref b = host_only);
    /// Overload for columns.
    /// \param limit  longest wait
    /// \param how    as for `attach_column`
    /// \param b      back end
    /// \return       the frame; empty: none within `limit`
    /// \throws error  as for tensors
    [[nodiscard]] FERRY_INLINE std::optional<frame<column>> next_column(std::chrono::nanoseconds limit,
                                                                        attach_options const& how = {},
                                                                        handle_ref b = host_only);
    /// Returns whether a publisher has the name: not before `next` has found its file.
    [[nodiscard]] FERRY_INLINE bool has_publisher() const noexcept;

   private:
    struct state;
    std::unique_ptr<state> state_;
};

/// Returns the names that have a publisher.
/// \param how  directory
/// \throws error  errc::permission: the directory is not this user's alone
/// \throws std::bad_alloc
[[nodiscard]] FERRY_INLINE std::vector<std::string> topics(topic_options const& how = {});

}  // namespace FERRY_NAMESPACE::ipc

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/subscriber.ipp>
#endif
