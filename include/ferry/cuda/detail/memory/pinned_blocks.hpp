// ferry: pinned memory that is kept for reuse after its release.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/space.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

namespace FERRY_NAMESPACE::cuda::detail {

/// Pinned blocks that are kept after their release, because pinning takes much longer than a copy. At most `most_kept`
/// bytes are kept while they are not in use, and at most `most` bytes are pinned. Thread-safe. Must outlive its blocks.
class pinned_blocks {
   public:
    struct give_back {
        pinned_blocks* to = nullptr;
        std::size_t size = 0;
        void operator()(std::byte* p) const noexcept { to->release(p, size); }
    };
    /// A block that is released at the end of its scope.
    using block = std::unique_ptr<std::byte, give_back>;

    explicit pinned_blocks(std::size_t most_kept, std::size_t most = std::numeric_limits<std::size_t>::max()) noexcept
        : most_kept_{most_kept}, most_{most} {}
    pinned_blocks(pinned_blocks const&) = delete;
    pinned_blocks& operator=(pinned_blocks const&) = delete;
    ~pinned_blocks() {
        for (auto const& f : free_) pinned_space{}.deallocate(f.p, f.size);
    }

    /// Takes a block of `size` bytes. Waits while the blocks in use leave no room for it. A thread that holds a block
    /// must call `try_take` instead, to avoid a deadlock.
    [[nodiscard]] block take(std::size_t size) { return {acquire(size, true), {this, size}}; }
    /// Takes a block without waiting. Returns null when there is no room, or no memory.
    [[nodiscard]] block try_take(std::size_t size) {
        try {
            return {acquire(size, false), {this, size}};
        } catch (error const& e) {
            if (e.code() != errc::out_of_memory) throw;
            return {};
        }
    }

    /// Takes a free block of the same size, or pins a new one, for which free blocks of other sizes are unpinned if
    /// necessary. When there is no room, waits for a block if `may_wait`, and returns null otherwise.
    [[nodiscard]] std::byte* acquire(std::size_t size, bool may_wait) {
        std::unique_lock lock{mutex_};
        for (;;) {
            auto const same = std::find_if(free_.rbegin(), free_.rend(), [&](auto& f) { return f.size == size; });
            if (same != free_.rend()) return remove(std::prev(same.base())).p;
            if (size <= most_ && pinned_ <= most_ - size) break;
            if (size <= most_ && !free_.empty()) {
                auto const other = remove(free_.begin());
                unpin(lock, other.p, other.size);
            } else if (may_wait) {
                changed_.wait(lock);
            } else {
                return nullptr;
            }
        }
        free_.reserve(count_ + 1);  // so that `release` does not throw
        ++count_;
        pinned_ += size;
        lock.unlock();
        try {
            return static_cast<std::byte*>(pinned_space{}.allocate(size));
        } catch (...) {
            lock.lock();
            forget(size);
            throw;
        }
    }
    /// Keeps a block, or unpins it. Does not wait: work that uses the block must be complete.
    void release(std::byte* p, std::size_t size) noexcept {
        std::unique_lock lock{mutex_};
        if (size > most_kept_ || kept_ > most_kept_ - size) return unpin(lock, p, size);
        free_.push_back({p, size});  // reserved
        kept_ += size;
        changed_.notify_one();
    }

    /// Returns the number of pinned bytes, and how many of them are not in use.
    [[nodiscard]] std::pair<std::size_t, std::size_t> bytes() const {
        std::lock_guard const lock{mutex_};
        return {pinned_, kept_};
    }

   private:
    struct free_block {
        std::byte* p;
        std::size_t size;
    };
    using list = std::vector<free_block>;

    free_block remove(list::iterator at) noexcept {
        auto const found = *at;
        free_.erase(at);
        kept_ -= found.size;
        return found;
    }
    /// Unpins without the lock, because it may synchronise, and until then counts the block as pinned.
    void unpin(std::unique_lock<std::mutex>& lock, std::byte* p, std::size_t size) noexcept {
        lock.unlock();
        pinned_space{}.deallocate(p, size);
        lock.lock();
        forget(size);
    }
    void forget(std::size_t size) noexcept {
        --count_;
        pinned_ -= size;
        changed_.notify_one();
    }

    std::size_t most_kept_, most_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    list free_;
    std::size_t kept_ = 0, pinned_ = 0, count_ = 0;
};

}  // namespace FERRY_NAMESPACE::cuda::detail
