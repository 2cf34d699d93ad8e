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
    T value;                       ///< `managed_tensor` or `column`; its slot is not written while the value exists
    std::uint64_t generation = 0;  ///< number of the frame; a gap after the last one means missed frames
};

/// Reads the frames that are published under a name. It may exist before a publisher, and continues with the next
/// publisher of the name. Keeps the mapping of each slot. The frames may outlive it. Not thread-safe.
class subscriber {
   public:
    /// Subscribes to a name, which need not have a publisher yet.
    /// \param name  name of the publisher, 1 to 200 bytes
    /// \param how   directory
    /// \throws error  errc::argument: not a name; errc::permission: the directory is not this user's alone
    FERRY_INLINE explicit subscriber(std::string_view name, topic_options const& how = {});
    /// Subscribes to the publisher that has sent `publisher::files` over a socket, and to no later one.
    /// \param files  the received files, in order; owned on success
    /// \throws error  errc::bad_descriptor: the first file is not that of a topic
    FERRY_INLINE explicit subscriber(std::vector<unique_fd>&& files);
    subscriber(subscriber const&) = delete;
    subscriber& operator=(subscriber const&) = delete;
    FERRY_INLINE ~subscriber();

    /// Returns the newest frame, a tensor; waits for one that this subscriber has not returned yet.
    ///
    /// \param limit  longest wait
    /// \param how    as for `attach`. The default session is one of this subscriber; do not pass the session of the
    ///               publisher, whose attaches are not counted. The default files are those received
    /// \param b      back end; a `handle_back_end` for device memory
    /// \return       the frame; empty if there is none within `limit`
    /// \throws error  errc::bad_descriptor: the file is damaged; errors of `attach`, except those of a publisher that
    ///                has ended
    /// \throws std::bad_alloc
    [[nodiscard]] FERRY_INLINE std::optional<frame<managed_tensor>> next(std::chrono::nanoseconds limit,
                                                                         attach_options const& how = {},
                                                                         handle_ref b = host_only);
    /// Overload for columns.
    /// \param limit  longest wait
    /// \param how    as for `attach_column`
    /// \param b      back end
    /// \return       the frame; empty if there is none within `limit`
    /// \throws error  as for tensors
    [[nodiscard]] FERRY_INLINE std::optional<frame<column>> next_column(std::chrono::nanoseconds limit,
                                                                        attach_options const& how = {},
                                                                        handle_ref b = host_only);
    /// Returns whether a publisher has the name; false until `next` has found the file of the publisher.
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
