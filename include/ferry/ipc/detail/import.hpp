// ferry: mappings of memory of other processes, and the number of their users.
#pragma once

#include <ferry/ipc/detail/region.hpp>
#include <ferry/ipc/handle_ref.hpp>

#include <condition_variable>
#include <list>
#include <source_location>

namespace FERRY_NAMESPACE::ipc::detail {

inline constexpr char const* attach_api = "ferry::ipc::attach";

[[noreturn]] FERRY_COLD inline void fail_no_lock(std::source_location where) {
    fail(errc::out_of_memory, attach_api,
         message{
             "no byte of the segment can be locked, because the kernel has no memory for locks, or another process of "
             "this user has locked all: end processes that attach it"},
         where);
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

    std::string key{};
    std::shared_ptr<region> where{};
    std::shared_ptr<void> life = std::make_shared<char>();  // of this entry
    std::vector<std::unique_ptr<opened>> foreign{};         // off the host: one for each memory under this name
    std::uint64_t share = 0;
    process_mark process{};
    int place = -1;    // in the control page; -1: its segment is sealed
    int reading = -1;  // byte that is locked while there are tensors, if the page does not count them
    std::vector<wire::memory> descriptions{};
    std::mutex recording{};
    std::shared_ptr<void> kept_by{};  // its own session, where it may never be closed: guarded by recording

    std::size_t users = 0;        // from here on guarded by the cache
    std::uint64_t forked_at = 0;  // forks() when the first of the users came
    bool is_opening = true;
    bool is_current = true;  // found by its key

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
    using list = std::list<mapping_entry>;

   public:
    using handle = list::iterator;

    import_cache(std::size_t bound, std::uint64_t bytes) noexcept : bound_{bound}, most_bytes_{bytes} {}

    /// The mapping for `key`, made by `open(mapping_entry&)` when there is none; two threads that want the same one get
    /// the same.
    /// \throws  what `open` throws; errc::out_of_memory
    template <class Open>
    [[nodiscard]] handle acquire(std::string const& key, Open open, std::source_location where) {
        std::unique_lock lock{mutex_};
        for (;;) {
            auto const found = by_key_.find(key);
            if (found == by_key_.end()) break;
            if (found->second->is_opening) {
                opened_.wait(lock);
                continue;
            }
            use(found->second, where);
            return found->second;
        }
        used_.emplace_front();
        auto const made = used_.begin();
        made->users = 1;
        made->forked_at = forks();
        try {
            made->key = key;
            by_key_.emplace(key, made);
            list doomed;
            take_unused(doomed, true);
            lock.unlock();
            doomed.clear();
            open(*made);
        } catch (...) {
            if (!lock.owns_lock()) lock.lock();
            by_key_.erase(key);
            list failed;
            failed.splice(failed.begin(), used_, made);
            opened_.notify_all();
            lock.unlock();
            throw;
        }
        lock.lock();
        made->is_opening = false;
        opened_.notify_all();
        return made;
    }

    /// One more user of a mapping of this process, by the handle of a former use.
    /// \return  false: it is no longer mapped
    [[nodiscard]] bool acquire_again(handle at, std::weak_ptr<void> const& life, std::source_location where) {
        std::lock_guard const lock{mutex_};
        if (life.expired() || !at->process.is_here()) return false;
        use(at, where);
        return true;
    }

    /// One user less. Unmaps what is not worth keeping. \param is_known  see attachment
    void release(handle at, bool is_known = false) noexcept {
        list doomed;
        std::lock_guard const lock{mutex_};
        // Not at each release, because it takes 0.5 us for each unused mapping.
        if (auto const now = std::chrono::steady_clock::now();
            !is_known && now - checked_at_ >= std::chrono::milliseconds{1}) {
            checked_at_ = now;
            take_unused(doomed, true);
        }
        mapping_entry& one = *at;
        if (--one.users != 0) return;
        // A byte that a child has inherited, or that stands for queued work, stays locked for as long as the mapping.
        bool const is_mine = one.process.is_here() && !one.is_inherited() && !one.has_no_event();
        if (is_mine) one.end_reading();
        bool const has_room = bound_ != 0 && one.bytes() <= most_bytes_;
        if (bool const keep = is_mine && one.is_current && has_room && (is_known || one.is_attachable()); !keep) {
            if (one.is_current) by_key_.erase(one.key);
            doomed.splice(doomed.begin(), used_, at);
            return;
        }
        unused_.splice(unused_.begin(), used_, at);
        bytes_ += one.bytes();
        while (unused_.size() > bound_ || bytes_ > most_bytes_) take(std::prev(unused_.end()), doomed);
    }

    /// Removes unused mappings, or only those of closed shares, which keep the memory of their exporter allocated.
    /// Returns whether there were any.
    bool trim(bool only_closed = false) noexcept {
        list doomed;
        {
            std::lock_guard const lock{mutex_};
            take_unused(doomed, only_closed);
        }
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
        for (auto const& one : used_) {
            if (one.is_opening || !one.process.is_here()) continue;
            for (std::size_t i = 0; i < one.foreign.size(); ++i) {
                auto* const begin = static_cast<std::byte*>(one.foreign[i]->data());
                auto const& m = one.descriptions[i];
                if (std::less<>{}(r.begin, static_cast<std::byte const*>(begin)) ||
                    !is_same_device(one.foreign[i]->device(), place))
                    continue;
                auto const inside = static_cast<std::uint64_t>(r.begin - begin);
                if (inside > m.length || r.length > m.length - inside) continue;
                found = opened_range{one.where, m, begin, one.is_attachable()};
                if (found->is_open) return found;
            }
        }
        return found;
    }
    /// Forgets all: what is in use dies with its users. For the child of a fork.
    void detach() noexcept {
        list doomed;
        std::lock_guard const lock{mutex_};
        by_key_.clear();
        for (auto& one : used_) one.is_current = false;
        doomed.swap(unused_);
        bytes_ = 0;
    }
    [[nodiscard]] std::size_t size() const noexcept {
        std::lock_guard const lock{mutex_};
        return used_.size() + unused_.size();
    }
    [[nodiscard]] std::size_t unused() const noexcept {
        std::lock_guard const lock{mutex_};
        return unused_.size();
    }

   private:
    void use(handle at, std::source_location where) {
        if (at->users == 0) {
            if (!at->begin_reading()) fail_no_lock(where);
            used_.splice(used_.begin(), unused_, at);
            bytes_ -= at->bytes();
            at->forked_at = forks();
        }
        ++at->users;
    }
    void take(handle unused, list& doomed) noexcept {
        bytes_ -= unused->bytes();
        by_key_.erase(unused->key);
        doomed.splice(doomed.begin(), unused_, unused);
    }
    void take_unused(list& doomed, bool only_closed) noexcept {
        for (auto at = unused_.begin(); at != unused_.end();)
            if (auto const one = at++; !only_closed || !one->is_attachable()) take(one, doomed);
    }

    std::size_t bound_;
    std::uint64_t most_bytes_, bytes_ = 0;                // of unused_
    std::chrono::steady_clock::time_point checked_at_{};  // by a release, for closed shares
    mutable std::mutex mutex_;
    std::condition_variable opened_;
    list used_, unused_;  // unused: the last used first
    std::map<std::string, list::iterator> by_key_;
};

}  // namespace FERRY_NAMESPACE::ipc::detail
