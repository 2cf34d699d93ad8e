// ferry: session, the shares and cached mappings of a process.
#pragma once

#include <ferry/ipc/detail/session_state.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>  // tensors outlive the session that attached them

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc {

namespace detail {
struct session_access;
}

/// Options of a session.
struct session_options {
    /// Maximum number of unused mappings kept for later attaches, the most recently used ones; 0: none.
    std::size_t unused_mappings = 64;
    /// Kind of the segments that the session or `shared_space` allocates. A share of device memory has a segment as
    /// well, without data. Anonymous segments need no /dev/shm and are not limited by its size (64 MiB in many
    /// containers), are freed when all processes that use them have ended, even if killed, and have a sealed size, so
    /// that importers need not trust the exporter. But importers also need `shared::files`, which must be sent over a
    /// Unix socket.
    segment_kind segments = segment_kind::named;
    /// Maximum number of bytes of the unused mappings together.
    std::uint64_t unused_bytes = std::uint64_t{1} << 30;
};

/// Counts of a session.
struct session_counts {
    std::size_t shares = 0;     ///< open for attaches
    std::size_t mappings = 0;   ///< mappings of memory of other processes
    std::size_t unused = 0;     ///< mappings that no tensor uses
    std::size_t condemned = 0;  ///< closed shares of device memory that an importer still maps
};

/// State shared by calls of `share` and `attach`. With a session, a memory that is already mapped is attached without a
/// mapping system call, a share of this process is attached as an alias, and a tensor whose storage is already
/// shared is shared without a copy. Without one, each call is independent.
///
/// Thread-safe; has no thread and no global state. Shares and tensors may outlive it. A forked child may continue to
/// use it: the parent keeps its shares, and the child maps memory anew. As with any mutex, no other thread may be in a
/// call during the fork.
class session {
   public:
    explicit session(session_options const& options = {})
        : state_{std::make_shared<detail::session_state>(options.unused_mappings, options.unused_bytes,
                                                         options.segments)} {}
    session(session const&) = delete;
    session& operator=(session const&) = delete;

    /// Unmaps memory that no tensor uses.
    void trim() noexcept { state_->imports().trim(); }
    /// Frees the owners of closed shares of device memory that no importer maps, polling until `limit`, and unmaps
    /// unused memory that its exporter has closed. `share` does the same without waiting. Owners left when the session
    /// and its shares are destroyed are never freed, because an importer may still read their memory.
    /// \param limit  longest wait
    /// \return       number of such shares left
    std::size_t collect(std::chrono::nanoseconds limit = {}) noexcept { return state_->collect(limit); }
    /// Closes all open shares. For the end of a process: otherwise their names would remain until the next exporter
    /// starts.
    void close_all() noexcept { state_->close_all(); }
    /// Returns whether no process can write the memory of a tensor any more, from the seals of its file. Such memory of
    /// an exporter that is not trusted can be validated in place; other shared memory must be copied first.
    /// \param v  a tensor in host memory that this session shares or has attached
    [[nodiscard]] bool sealed(tensor_view const& v) const {
        auto const found = state_->regions().find(range_of(v));
        return found != nullptr && found->memory.is_frozen();
    }
    /// Returns the current counts.
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
    /// The state of a session, or new state for one call, which caches nothing.
    [[nodiscard]] static std::shared_ptr<session_state> state(session* s) {
        return s != nullptr ? s->state_ : std::make_shared<session_state>(0);
    }
};

}  // namespace detail
}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc
