// ferry: the state of memory that may move: its place, and the number of leases that use it. Used by spill_core.hpp.
#pragma once

#include <ferry/config.hpp>

#include <cstdint>

namespace FERRY_NAMESPACE::detail {

/// The answer to a caller that begins a lease.
enum class begun : std::uint8_t {
    granted,  ///< the lease has begun
    wait,     ///< the memory is moving; call again after a change of the state
    prepare,  ///< the lease has begun; the caller brings the memory back, or orders its stream, and calls `prepared`
};

/// The state of one allocation. Memory leaves the device only while no lease uses it, and no lease is granted while it
/// moves. Callers hold a lock.
struct lease_state {
    enum class place : std::uint8_t {
        resident,  ///< on the device
        moving,    ///< a caller copies it, or makes a stream wait for its work
        away,      ///< on the host
    };
    place at = place::resident;
    bool is_quarantined = false;  ///< unknown work may use the memory, so it is neither moved nor freed
    std::uint32_t handles = 1, readers = 0, writers = 0;

    [[nodiscard]] constexpr bool is_used() const noexcept { return readers + writers != 0; }
    /// Returns whether the memory may leave.
    [[nodiscard]] constexpr bool may_leave() const noexcept {
        return at == place::resident && !is_used() && !is_quarantined;
    }
    /// Returns whether nothing refers to the memory any more.
    [[nodiscard]] constexpr bool is_dropped() const noexcept {
        return handles == 0 && !is_used() && at != place::moving;
    }

    /// Begins a lease. `needs_order` is true if the stream of the lease has to wait for earlier work.
    [[nodiscard]] constexpr begun begin(bool writes, bool needs_order) noexcept {
        if (at == place::moving) return begun::wait;
        ++(writes ? writers : readers);
        if (at == place::resident && !needs_order) return begun::granted;
        at = place::moving;
        return begun::prepare;
    }
    /// Ends the preparation of a lease; if it failed, the lease does not begin. `before` is the place of the memory
    /// before the preparation.
    constexpr void prepared(bool writes, bool is_ready, place before) noexcept {
        at = is_ready ? place::resident : before;
        if (!is_ready) end(writes);
    }
    constexpr void end(bool writes) noexcept { --(writes ? writers : readers); }

    /// Begins to spill. Returns false if the memory may not leave.
    [[nodiscard]] constexpr bool leave() noexcept {
        if (!may_leave()) return false;
        at = place::moving;
        return true;
    }
    /// Ends a spill, which leaves the memory on the device if it failed.
    constexpr void left(bool is_copied) noexcept { at = is_copied ? place::away : place::resident; }
};

}  // namespace FERRY_NAMESPACE::detail
