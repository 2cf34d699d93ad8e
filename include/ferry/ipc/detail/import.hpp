// ferry: mappings of memory of other processes, and the number of their users.
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

/// One mapping. Its place in the control page ends with it, and with its copies in forked children.
struct mapping_entry {
    ~mapping_entry() {
        bool const is_device = !foreign.empty();
        // First: an empty place says that nothing is mapped. In order: the first waits for the work that uses any.
        for (auto& one : foreign) one.reset();
        // A forked child cannot use memory of a device, but may read that of the host.
        if (!is_device || !process.is_here()) return;
        end_reading();
        control().leave(place, memory().locks());
    }

    explicit mapping_entry(std::string name) : key{std::move(name)} {}

    std::string key;  // empty: it is not found again; guarded by the cache
    std::shared_ptr<region> where{};
    std::vector<std::unique_ptr<opened>> foreign{};  // off the host: one for each memory under this name
    std::uint64_t share = 0;
    process_mark process{};
    int place = -1;    // in the control page; -1: its segment is sealed
    int reading = -1;  // byte that is locked while there are tensors, if the page does not count them
    std::vector<wire::memory> descriptions{};
    std::mutex recording{};
    std::shared_ptr<void> kept_by{};  // its own session, where it may never be closed: guarded by recording

    std::size_t users = 1;              // from here on guarded by the cache
    std::uint64_t unused_since = 0;     // orders those without users; 0: it has some
    std::uint64_t forked_at = forks();  // when the first of the users came
    bool is_opening = true;

    [[nodiscard]] segment& memory() const noexcept { return where->memory; }
    [[nodiscard]] control_page& control() const noexcept { return memory().control(); }
    [[nodiscard]] bool is_attachable() const noexcept { return memory().is_open(share); }
    /// Called for the first tensor. False when the kernel has no memory for a lock.
    [[nodiscard]] bool begin_reading() noexcept {
        if (place >= 0 || reading >= 0) return true;
        reading = control_page::begin_reading(memory().locks());
        return reading >= 0;
    }
    /// Called after the last tensor.
    void end_reading() noexcept {
        if (reading >= 0) control_page::end_reading(std::exchange(reading, -1), memory().locks());
    }
    /// Whether an exporter cannot wait for the work that uses the mapping except by waiting for its end.
    [[nodiscard]] bool has_no_event() const noexcept { return place < 0 && !foreign.empty(); }
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        std::uint64_t all = 0;
        for (auto const& m : descriptions) all += m.allocation;
        return all;
    }
    /// Whether a child that was forked meanwhile may read through its copy of the mapping.
    [[nodiscard]] bool is_inherited() const noexcept { return foreign.empty() && forked_at != forks(); }
};

/// The mappings of a session by key. Up to two bounds, the most recently used of the unused ones are kept.
class import_cache {
    using map = std::map<std::string, std::shared_ptr<mapping_entry>>;

   public:
    import_cache(std::size_t bound, std::uint64_t bytes) noexcept : bound_{bound}, most_bytes_{bytes} {}

    /// The mapping for `key`, made by `open(mapping_entry&)` when there is none; two threads that want the same one get
    /// the same.
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
    /// One more user of a mapping of this process. Null: it is no longer mapped.
    [[nodiscard]] std::shared_ptr<mapping_entry> acquire_again(std::weak_ptr<mapping_entry> const& known,
                                                               std::source_location where) {
        auto found = known.lock();
        std::lock_guard const lock{mutex_};
        if (found == nullptr || found->key.empty() || !found->process.is_here()) return nullptr;
        use(*found, where);
        return found;
    }

    /// One user less. Unmaps what is not worth keeping. \param is_known  see attachment
    void release(mapping_entry& one, bool is_known = false) noexcept {
        map doomed;
        std::lock_guard const lock{mutex_};
        // Not at each release, because it takes 0.5 us for each unused mapping.
        if (auto const now = std::chrono::steady_clock::now();
            !is_known && now - checked_at_ >= std::chrono::milliseconds{1}) {
            checked_at_ = now;
            take_unused(doomed, true);
        }
        if (--one.users != 0) return;
        // A byte that a child has inherited, or that stands for queued work, stays locked for as long as the mapping.
        bool const is_mine = one.process.is_here() && !one.is_inherited() && !one.has_no_event();
        if (is_mine) one.end_reading();
        if (one.key.empty()) return;
        bytes_ += one.bytes(), ++unused_;
        one.unused_since = ++releases_;
        bool const has_room = bound_ != 0 && one.bytes() <= most_bytes_;
        if (!is_mine || !has_room || !(is_known || one.is_attachable())) return take(by_key_.find(one.key), doomed);
        auto const is_older = [](auto const& a, auto const& b) {
            return a.second->unused_since - 1 < b.second->unused_since - 1;  // those in use come last
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
        wire::memory description;  // of its exporter
        std::byte* begin;          // of the exported range
        bool is_open;              // the share
    };
    /// The opened memory in which a range lies; of several, one whose share is open.
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
    /// Forgets all: what is in use dies with its users. For the child of a fork.
    void detach() noexcept {
        map doomed;
        std::lock_guard const lock{mutex_};
        for (auto& [key, one] : by_key_) one->key.clear();
        doomed.swap(by_key_);
        bytes_ = unused_ = 0;
    }
    /// The number of mappings, and of those without users.
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
    /// What `doomed` has is unmapped after the lock.
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
    std::uint64_t most_bytes_, bytes_ = 0;                // bytes_: of those without users
    std::uint64_t releases_ = 0;                          // of last users
    std::chrono::steady_clock::time_point checked_at_{};  // by a release, for closed shares
    mutable std::mutex mutex_;
    std::condition_variable opened_;
    map by_key_;
};

}  // namespace FERRY_NAMESPACE::ipc::detail
