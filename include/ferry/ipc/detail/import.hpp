// ferry: the mappings of memory of other processes, and the counts of their users.
#pragma once

#include <ferry/ipc/detail/region.hpp>
#include <ferry/ipc/handles.hpp>

#include <condition_variable>
#include <source_location>

namespace FERRY_NAMESPACE::ipc::detail {

inline constexpr char const* attach_api = "ferry::ipc::attach";

[[noreturn]] FERRY_COLD inline void fail_no_lock(std::source_location where) {
    fail(errc::out_of_memory, attach_api, where,
         "no byte of the segment can be locked, because the kernel has no memory for locks, or another process of this "
         "user has locked all: end processes that attach it");
}

/// One mapping. It frees its slot in the control page when it and its copies in forked children are destroyed.
struct mapping_entry {
    ~mapping_entry() {
        bool const is_device = !foreign.empty();
        // Before the slot is freed, because a free slot means that nothing is mapped. In this order, because the first
        // memory waits for the work that uses any of them.
        for (auto& one : foreign) one.reset();
        // A forked child cannot use device memory, but may read host memory.
        if (!is_device || !process.is_here()) return;
        end_reading();
        control().leave(place, memory().locks());
    }

    explicit mapping_entry(std::string name) : key{std::move(name)} {}

    std::string key;  // empty if the cache does not contain the mapping; guarded by the cache
    std::shared_ptr<region> where{};
    std::vector<std::unique_ptr<opened>> foreign{};  // device memory: one for each memory with this name
    std::uint64_t share = 0;
    process_mark process{};
    int place = -1;    // slot in the control page; -1 if the segment is sealed
    int reading = -1;  // byte that is locked while there are tensors, if the page does not count them
    std::vector<wire::memory> descriptions{};
    std::mutex recording{};
    std::shared_ptr<void> kept_by{};  // its own session, if it may never be closed; guarded by `recording`

    std::size_t users = 1;              // this and the next members are guarded by the cache
    std::uint64_t unused_since = 0;     // orders the mappings without users; 0 while it has users
    std::uint64_t forked_at = forks();  // number of forks when the first of the users was added
    bool is_opening = true;

    [[nodiscard]] segment& memory() const noexcept { return where->memory; }
    [[nodiscard]] control_page& control() const noexcept { return memory().control(); }
    [[nodiscard]] bool is_attachable() const noexcept { return memory().is_open(share); }
    /// Called for the first tensor. Returns false when the kernel has no memory for a lock.
    [[nodiscard]] bool begin_reading() noexcept {
        if (place >= 0 || reading >= 0) return true;
        reading = control_page::begin_reading(memory().locks());
        return reading >= 0;
    }
    /// Called after the last tensor.
    void end_reading() noexcept {
        if (reading >= 0) control_page::end_reading(std::exchange(reading, -1), memory().locks());
    }
    /// Returns whether the mapping has no event for the exporter, which must then wait until the mapping is closed.
    [[nodiscard]] bool has_no_event() const noexcept { return place < 0 && !foreign.empty(); }
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        std::uint64_t all = 0;
        for (auto const& m : descriptions) all += m.allocation;
        return all;
    }
    /// Returns whether a child that was forked since the first user was added may read through its copy of the mapping.
    [[nodiscard]] bool is_inherited() const noexcept { return foreign.empty() && forked_at != forks(); }
};

/// The mappings of a session by key. Keeps unused mappings within two limits; the least recently used ones end first.
class import_cache {
    using map = std::map<std::string, std::shared_ptr<mapping_entry>>;

   public:
    import_cache(std::size_t bound, std::uint64_t bytes) noexcept : bound_{bound}, most_bytes_{bytes} {}

    /// Returns the mapping for `key`, with one more user. Calls `open(mapping_entry&)` if there is none; two threads
    /// that request the same key get the same mapping.
    /// \throws  what `open` throws; errc::out_of_memory
    template <class Open>
    [[nodiscard]] std::shared_ptr<mapping_entry> acquire(std::string const& key, Open open,
                                                         std::source_location where) {
        map doomed;
        std::unique_lock lock{mutex_};
        auto found = by_key_.find(key);
        for (; found != by_key_.end() && found->second->is_opening; found = by_key_.find(key)) opened_.wait(lock);
        if (found != by_key_.end()) {
            use(*found->second, where);
            return found->second;
        }
        auto const made = by_key_.emplace(key, std::make_shared<mapping_entry>(key)).first->second;
        take_unused(doomed, true);
        lock.unlock();
        auto const end = [&](bool is_open) {
            lock.lock();
            made->is_opening = false;
            if (!is_open) by_key_.erase(key);
            opened_.notify_all();
            lock.unlock();
        };
        try {
            doomed.clear();
            open(*made);
        } catch (...) {
            end(false);
            throw;
        }
        end(true);
        return made;
    }
    /// Adds a user to a mapping of this process. Returns null if it is no longer in the cache.
    [[nodiscard]] std::shared_ptr<mapping_entry> acquire_again(std::weak_ptr<mapping_entry> const& known,
                                                               std::source_location where) {
        auto found = known.lock();
        std::lock_guard const lock{mutex_};
        if (found == nullptr || found->key.empty() || !found->process.is_here()) return nullptr;
        use(*found, where);
        return found;
    }

    /// Removes a user. Unmaps a mapping without users unless it is kept for reuse. \param is_known  see attachment
    void release(mapping_entry& one, bool is_known = false) noexcept {
        map doomed;
        std::lock_guard const lock{mutex_};
        // Not in each release, because it takes 0.5 us for each unused mapping.
        if (auto const now = std::chrono::steady_clock::now();
            !is_known && now - checked_at_ >= std::chrono::milliseconds{1}) {
            checked_at_ = now;
            take_unused(doomed, true);
        }
        if (--one.users != 0) return;
        // The byte stays locked until the mapping ends if a child has inherited the lock, or it stands for queued work.
        bool const is_mine = one.process.is_here() && !one.is_inherited() && !one.has_no_event();
        if (is_mine) one.end_reading();
        if (one.key.empty()) return;
        bytes_ += one.bytes(), ++unused_;
        one.unused_since = ++releases_;
        bool const has_room = bound_ != 0 && one.bytes() <= most_bytes_;
        if (!is_mine || !has_room || !(is_known || one.is_attachable())) return take(by_key_.find(one.key), doomed);
        auto const is_older = [](auto const& a, auto const& b) {
            return a.second->unused_since - 1 < b.second->unused_since - 1;  // 0 wraps: mappings in use come last
        };
        while (unused_ > bound_ || bytes_ > most_bytes_)
            take(std::min_element(by_key_.begin(), by_key_.end(), is_older), doomed);
    }

    /// Removes unused mappings, or only those of closed shares, which keep the memory of their exporter allocated.
    /// Returns whether there were any.
    bool trim(bool only_closed = false) noexcept {
        map doomed;
        std::lock_guard const lock{mutex_};
        take_unused(doomed, only_closed);
        return !doomed.empty();
    }
    /// Memory of a device that this process has opened.
    struct opened_range {
        std::shared_ptr<region> where;
        wire::memory description;  // description by its exporter
        std::byte* begin;          // first byte of the exported range
        bool is_open;              // whether the share is open
    };
    /// Returns the opened memory that contains a range, preferably one whose share is open.
    [[nodiscard]] std::optional<opened_range> find(byte_range const& r, ferry::device place) const {
        std::lock_guard const lock{mutex_};
        std::optional<opened_range> found;
        for (auto const& [key, one] : by_key_) {
            if (one->is_opening || one->users == 0 || !one->process.is_here()) continue;
            for (std::size_t i = 0; i < one->foreign.size(); ++i) {
                auto* const begin = static_cast<std::byte*>(one->foreign[i]->data());
                auto const& m = one->descriptions[i];
                if (std::less<>{}(r.begin, static_cast<std::byte const*>(begin)) ||
                    !is_same_device(one->foreign[i]->device(), place))
                    continue;
                auto const inside = static_cast<std::uint64_t>(r.begin - begin);
                if (inside > m.length || r.length > m.length - inside) continue;
                found = opened_range{one->where, m, begin, one->is_attachable()};
                if (found->is_open) return found;
            }
        }
        return found;
    }
    /// Removes all mappings from the cache, in the child of a fork. Mappings in use end with their users.
    void detach() noexcept {
        map doomed;
        std::lock_guard const lock{mutex_};
        for (auto& [key, one] : by_key_) one->key.clear();
        doomed.swap(by_key_);
        bytes_ = unused_ = 0;
    }
    /// Returns the number of mappings, and the number of mappings without users.
    [[nodiscard]] std::pair<std::size_t, std::size_t> counts() const noexcept {
        std::lock_guard const lock{mutex_};
        return {by_key_.size(), unused_};
    }

   private:
    void use(mapping_entry& one, std::source_location where) {
        if (one.users == 0) {
            if (!one.begin_reading()) fail_no_lock(where);
            bytes_ -= one.bytes(), --unused_;
            one.forked_at = forks(), one.unused_since = 0;
        }
        ++one.users;
    }
    /// Moves a mapping to `doomed`, whose mappings are unmapped after the lock is released.
    void take(map::iterator unused, map& doomed) noexcept {
        auto& one = *unused->second;
        bytes_ -= one.bytes(), --unused_;
        one.key.clear();
        doomed.insert(by_key_.extract(unused));
    }
    void take_unused(map& doomed, bool only_closed) noexcept {
        for (auto at = by_key_.begin(); at != by_key_.end();)
            if (auto const one = at++; one->second->users == 0 && (!only_closed || !one->second->is_attachable()))
                take(one, doomed);
    }

    std::size_t bound_, unused_ = 0;
    std::uint64_t most_bytes_, bytes_ = 0;                // bytes_: size of the mappings without users
    std::uint64_t releases_ = 0;                          // number of releases of a last user
    std::chrono::steady_clock::time_point checked_at_{};  // when a release last checked for closed shares
    mutable std::mutex mutex_;
    std::condition_variable opened_;
    map by_key_;
};

}  // namespace FERRY_NAMESPACE::ipc::detail
