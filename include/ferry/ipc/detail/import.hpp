// ferry: mappings of memory of other processes, and the number of their users.
#pragma once

#include <ferry/ipc/detail/region.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/process.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>  // see region.hpp
#include <mutex>   // see region.hpp
#include <string>  // see region.hpp
#include <unordered_map>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail {

/// opened_memory, whatever its type.
struct opened {
    opened() = default;
    opened(opened const&) = delete;
    opened& operator=(opened const&) = delete;
    virtual ~opened() = default;
    [[nodiscard]] virtual void* data() const = 0;
    [[nodiscard]] virtual ferry::device device() const = 0;
    virtual void wait_ready(wire::memory const&, stream_token) = 0;
    virtual bool record_done(stream_token, event_handle&) = 0;
};
template <opened_memory O>
struct opened_by final : opened {
    explicit opened_by(O&& o) : memory{std::move(o)} {}
    [[nodiscard]] void* data() const override { return memory.data(); }
    [[nodiscard]] ferry::device device() const override { return memory.device(); }
    void wait_ready(wire::memory const& m, stream_token on) override { memory.wait_ready(m, on); }
    bool record_done(stream_token on, event_handle& out) override { return memory.record_done(on, out); }
    O memory;
};

/// One mapping. Its place in the control page is this process's until it dies; the child of a fork has none.
struct mapping_entry {
    mapping_entry() = default;
    mapping_entry(mapping_entry const&) = delete;
    mapping_entry& operator=(mapping_entry const&) = delete;
    ~mapping_entry() {
        // mutant: ipc_close_after_work
        foreign.reset();  // first: an empty place says that nothing is mapped
        if (where != nullptr && process.is_here()) where->memory.control().leave(place);
    }

    std::string key{};
    std::shared_ptr<region> where{};
    std::unique_ptr<opened> foreign{};                // off the host
    std::shared_ptr<process_watch const> exporter{};  // null when its end cannot be detected
    std::uint64_t share = 0;
    process_mark process{};
    int place = -1;
    wire::memory description{};
    std::mutex recording{};
    std::shared_ptr<void> kept_by{};  // its own session, where it may never be closed: guarded by recording

    std::size_t users = 0;  // from here on guarded by the cache
    bool is_opening = true;
    bool is_current = true;  // found by its key

    [[nodiscard]] control_page& control() const noexcept { return where->memory.control(); }
    [[nodiscard]] bool is_attachable() const noexcept {
        // mutant: ipc_exporter_alive
        return control().is_open(share) && (exporter == nullptr || !exporter->has_ended());
    }
};

/// The mappings of a session by key. Up to a bound, the most recently used of the unused ones are kept.
class import_cache {
    using list = std::list<mapping_entry>;

   public:
    using handle = list::iterator;

    explicit import_cache(std::size_t bound) noexcept : bound_{bound} {}

    /// The mapping for `key`, made by `open(mapping_entry&)` when there is none; two threads that want the same one get
    /// the same.
    /// \throws  what `open` throws
    template <class Open>
    [[nodiscard]] handle acquire(std::string const& key, Open open) {
        std::unique_lock lock{mutex_};
        for (;;) {
            auto const found = by_key_.find(key);
            if (found == by_key_.end()) break;
            mapping_entry& one = *found->second;
            if (one.is_opening) {
                opened_.wait(lock);
                continue;
            }
            if (one.users++ == 0) used_.splice(used_.begin(), unused_, found->second);
            return found->second;
        }
        used_.emplace_front();
        auto const made = used_.begin();
        made->users = 1;
        try {
            made->key = key;
            by_key_.emplace(key, made);
            list doomed = take_closed();
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

    /// One user less. Unmaps what is not worth keeping.
    void release(handle at) noexcept {
        list doomed;
        std::lock_guard const lock{mutex_};
        mapping_entry& one = *at;
        if (--one.users != 0) return;
        bool const keep = one.is_current && bound_ != 0 && one.control().is_open(one.share);
        if (!keep) {
            if (one.is_current) by_key_.erase(one.key);
            doomed.splice(doomed.begin(), used_, at);
            return;
        }
        unused_.splice(unused_.begin(), used_, at);
        if (unused_.size() <= bound_) return;
        by_key_.erase(unused_.back().key);
        doomed.splice(doomed.begin(), unused_, std::prev(unused_.end()));
    }

    void trim() noexcept {
        list doomed;
        std::lock_guard const lock{mutex_};
        for (auto const& one : unused_) by_key_.erase(one.key);
        doomed.swap(unused_);
    }
    /// Forgets all: what is in use dies with its users. For the child of a fork.
    void detach() noexcept {
        list doomed;
        std::lock_guard const lock{mutex_};
        by_key_.clear();
        for (auto& one : used_) one.is_current = false;
        doomed.swap(unused_);
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
    /// Removes unused mappings of closed shares, which would only keep the exporter's memory allocated.
    [[nodiscard]] list take_closed() noexcept {
        list closed;
        for (auto at = unused_.begin(); at != unused_.end();) {
            auto const one = at++;
            if (one->is_attachable()) continue;
            by_key_.erase(one->key);
            closed.splice(closed.begin(), unused_, one);
        }
        return closed;
    }

    std::size_t bound_;
    mutable std::mutex mutex_;
    std::condition_variable opened_;
    list used_, unused_;  // unused: the last used first
    std::unordered_map<std::string, list::iterator> by_key_;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::ipc::detail
