// ferry: the mapped segments of a session, by address.
#pragma once

#include <ferry/ipc/detail/process.hpp>
#include <ferry/ipc/detail/segment.hpp>

#include <map>    // and std::less, which orders any pointers, without the cost of <functional>
#include <mutex>  // a session is thread-safe

namespace FERRY_NAMESPACE::ipc::detail {

class region_map;

/// A segment, and how it is mapped. The destructor removes it from its map.
struct region {
    region(segment s, std::uint64_t allocation, access_mode m = access_mode::read_write)
        : memory{std::move(s)}, id{allocation}, mode{m} {}
    /// Creates the segment last, so that no failed allocation of the region leaves its name.
    region(std::string const& segment_name, std::uint64_t bytes, std::uint64_t allocation, std::source_location where)
        : region{segment::create(segment_name, bytes, allocation, where), allocation} {}
    inline ~region();

    segment memory;
    std::uint64_t id;
    access_mode mode;
    std::uint64_t forked_at = forks();
    process_mark locked_by = process_mark::here();  // guarded by the map, as the next member
    enum class use : std::uint8_t { none, writable, sealed, imported } shared_as = use::none;
    region_map* map = nullptr;  // outlives the region
    // The members below are for allocations of shared_space.
    std::shared_ptr<region> self{};  // until the allocation is freed
    std::string name{};
    process_mark made_by{};
};

/// The regions of a session, by address.
class region_map {
   public:
    void add(std::shared_ptr<region> const& r) {
        std::lock_guard const lock{mutex_};
        if (r->memory.size() == 0 || r->map != nullptr) return;
        by_address_[r->memory.data()] = r;
        r->map = this;
    }
    void remove(region const& r) noexcept {
        std::lock_guard const lock{mutex_};
        by_address_.erase(r.memory.data());
    }
    /// Returns the region that contains the whole range; null if there is none.
    [[nodiscard]] std::shared_ptr<region> find(byte_range const& wanted) const {
        std::shared_ptr<region> found;  // outlives the lock, because the destructor of a region locks the map
        std::lock_guard const lock{mutex_};
        auto next = by_address_.upper_bound(wanted.begin);
        if (wanted.begin == nullptr || next == by_address_.begin()) return nullptr;
        found = std::prev(next)->second.lock();
        if (found == nullptr) return nullptr;
        auto const inside = static_cast<std::size_t>(wanted.begin - found->memory.data());
        bool const fits = inside <= found->memory.size() && wanted.length <= found->memory.size() - inside;
        return fits ? found : nullptr;
    }
    /// Prepares the region for a share. An anonymous region that this process made, and has never shared writable, is
    /// sealed for a read-only share, but not if it will be frozen, which seals it in one step. Returns false if the
    /// share is writable and the region is sealed.
    [[nodiscard]] bool prepare(region& r, bool is_read_only, bool will_be_frozen) {
        std::lock_guard const lock{mutex_};
        if (r.shared_as == region::use::imported || r.memory.file() < 0) return true;
        if (r.shared_as != region::use::writable && is_read_only && !will_be_frozen) r.memory.seal();
        if (r.shared_as == region::use::none) r.shared_as = is_read_only ? region::use::sealed : region::use::writable;
        return is_read_only || r.shared_as == region::use::writable;
    }
    /// Gives the segment of the region another name. Returns false, with errno, when that fails (`segment::link`).
    [[nodiscard]] bool link(region& r, std::string const& name) {
        std::lock_guard const lock{mutex_};
        if (!r.locked_by.is_here()) {  // a forked child shares the open file description of its parent
            if (!r.memory.reopen_locks()) return false;
            r.locked_by = process_mark::here();
        }
        return r.memory.link(name);
    }

   private:
    mutable std::mutex mutex_;
    std::map<std::byte const*, std::weak_ptr<region>, std::less<>> by_address_;
};

inline region::~region() {
    if (map != nullptr) map->remove(*this);
}

}  // namespace FERRY_NAMESPACE::ipc::detail
