// ferry: what a process has shared and attached: its exports, its open mappings, and what importers still keep alive.
#pragma once

#include <ferry/ipc/detail/session_state.hpp>

#include <chrono>
#include <cstddef>
#include <memory>  // tensors outlive the session that attached them

namespace ferry::inline v0::ipc {

namespace detail {
struct session_access;
}

/// How much a session keeps.
struct session_options {
    /// Mappings that nobody uses are kept for the next attach, the last used ones; 0: none. One file descriptor by
    /// which the last exporter is watched stays in any case.
    std::size_t unused_mappings = 64;
    /// What memory of the host is put into that the session copies, or that `shared_space` allocates. Anonymous: not
    /// bounded by the size of /dev/shm, which is 64 MiB in many containers; nothing is left of it when a process is
    /// killed; and no importer has to trust the exporter with its size. But the descriptor alone opens nothing:
    /// `shared::file` has to travel with it, over a socket.
    segment_kind segments = segment_kind::named;
};

/// What sessions count.
struct session_counts {
    std::size_t shares = 0;     ///< open for attaches
    std::size_t mappings = 0;   ///< memory of other processes, mapped here
    std::size_t unused = 0;     ///< of these, without a tensor
    std::size_t condemned = 0;  ///< closed shares of device memory that an importer still has mapped
};

/// Pass one to `share` and `attach` and keep it: attaching again costs no system call that maps, a share of this
/// process is attached as an alias, and a tensor whose storage is shared already is found. Without one each call is on
/// its own.
///
/// Thread-safe; owns no thread; no state is global. Shares and tensors may outlive it. The child of a fork may go on
/// using it: shares stay the parent's, and attaches begin anew; as with any mutex, no other thread may be inside of a
/// call during the fork.
class session {
   public:
    explicit session(session_options const& options = {})
        : state_{std::make_shared<detail::session_state>(options.unused_mappings, options.segments)} {}
    session(session const&) = delete;
    session& operator=(session const&) = delete;

    /// Unmaps what no tensor uses, and stops watching the last exporter where nothing of it is mapped.
    void trim() noexcept { state_->trim(); }
    /// Frees the owners of closed shares that no importer has mapped any more; asks again until `limit`. How many are
    /// left. Shares and attaches do this on the way, without waiting. What is left when the session and its shares are
    /// gone is never freed: an importer may still read it.
    std::size_t collect(std::chrono::nanoseconds limit = {}) noexcept { return state_->collect(limit); }
    /// Closes every share that is open: for the end of a process, whose shares would otherwise keep their names until
    /// the next exporter starts.
    void close_all() noexcept { state_->close_all(); }
    [[nodiscard]] session_counts counts() const noexcept {
        auto const c = state_->counts();
        return {c[0], c[1], c[2], c[3]};
    }

   private:
    friend struct detail::session_access;
    std::shared_ptr<detail::session_state> state_;
};

namespace detail {

struct session_access {
    /// Of the session, or of one for this call alone, which keeps nothing.
    [[nodiscard]] static std::shared_ptr<session_state> state(session* s) {
        return s != nullptr ? s->state_ : std::make_shared<session_state>(0);
    }
};

}  // namespace detail
}  // namespace ferry::inline v0::ipc
