// ferry: session, which records the shares of a process and caches its mappings.
#pragma once

#include <ferry/fwd.hpp>
#include <ferry/ipc/options.hpp>

#include <chrono>
#include <memory>  // tensors outlive the session that attached them

namespace FERRY_NAMESPACE::ipc {

namespace detail {
struct session_access;
class session_state;
}  // namespace detail

/// State shared by calls of `share` and `attach`. With a session, a memory that is already mapped is attached without a
/// mapping system call, a share of this process is attached as an alias, and a tensor whose storage is already
/// shared is shared without a copy. Without one, each call is independent.
///
/// Thread-safe; has no thread and no global state. Shares and tensors may outlive it. A forked child may continue to
/// use it; the parent keeps its shares, and the child maps memory again. As with any mutex, no other thread may be in a
/// call during the fork.
class session {
   public:
    /// \param options  bounds of the caches, and the type of segments
    FERRY_INLINE explicit session(session_options const& options = {});
    session(session const&) = delete;
    session& operator=(session const&) = delete;

    /// Unmaps memory that no tensor uses.
    FERRY_INLINE void trim() noexcept;
    /// Frees the owners of closed shares of device memory that no importer maps, polling until `limit`, and unmaps
    /// unused memory that its exporter has closed. `share` does the same without waiting. Also removes names that
    /// exporters of this user have left in /dev/shm when they ended; each call checks a bounded number of files. Owners
    /// that remain when the session and its shares are destroyed are never freed, because an importer may still read
    /// their memory.
    /// \param limit  longest wait
    /// \return       number of closed shares whose owners remain
    FERRY_INLINE std::size_t collect(std::chrono::nanoseconds limit = {}) noexcept;
    /// Closes all open shares. Call it at the end of a process; otherwise the names of the shares would remain until
    /// the next exporter starts.
    FERRY_INLINE void close_all() noexcept;
    /// Returns whether the file of a tensor's memory has seals that prevent all further writes. Such memory of an
    /// exporter that is not trusted can be validated in place; other shared memory must be copied first.
    /// \param v  a tensor in host memory that this session shares or has attached
    [[nodiscard]] FERRY_INLINE bool sealed(tensor_view const& v) const;
    /// Overload for a column. Checks all its buffers; returns false if it has none. Requires #include
    /// <ferry/ipc/attach_column.hpp>.
    /// \param c  a column that this session shares or has attached
    [[nodiscard]] FERRY_INLINE bool sealed(column_view const& c) const;
    /// Returns the current counts.
    [[nodiscard]] FERRY_INLINE session_counts counts() const noexcept;

   private:
    friend struct detail::session_access;
    std::shared_ptr<detail::session_state> state_;
};

namespace detail {

inline constexpr char const* share_api = "ferry::ipc::share";

struct session_access {
    /// Returns the state of a session; for null, a new state for one call, which caches nothing.
    [[nodiscard]] FERRY_INLINE static std::shared_ptr<session_state> state(session* s);
};

}  // namespace detail
}  // namespace FERRY_NAMESPACE::ipc

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/session.ipp>
#endif
