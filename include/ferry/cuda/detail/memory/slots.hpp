// ferry: pinned slots shared by lanes.
#pragma once

#include <ferry/cuda/space.hpp>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace ferry::inline FERRY_ABI_NAMESPACE::cuda::detail {

/// A bounded pool of pinned blocks of one size. Blocks are pinned when they are first needed, and then kept, because
/// pinning takes much longer than a copy. Thread-safe. Must outlive its blocks.
class slot_pool {
   public:
    /// One block; its destructor returns it to the pool.
    class block {
       public:
        block(block&& other) noexcept : from_{other.from_}, p_{std::exchange(other.p_, nullptr)} {}
        block& operator=(block&&) = delete;
        ~block() {
            if (p_ != nullptr) from_->give_back(p_);
        }
        [[nodiscard]] std::byte* data() const noexcept { return p_; }

       private:
        friend slot_pool;
        block() noexcept = default;
        block(slot_pool& from, std::byte* p) noexcept : from_{&from}, p_{p} {}
        slot_pool* from_ = nullptr;
        std::byte* p_ = nullptr;
    };

    slot_pool(std::size_t block_bytes, std::size_t most_bytes) noexcept
        : block_bytes_{block_bytes}, most_{most_bytes < block_bytes ? 1 : most_bytes / block_bytes} {}
    slot_pool(slot_pool const&) = delete;
    slot_pool& operator=(slot_pool const&) = delete;
    ~slot_pool() {
        for (auto* const p : free_) pinned_space{}.deallocate(p, block_bytes_);
    }

    [[nodiscard]] std::size_t block_bytes() const noexcept { return block_bytes_; }

    /// Takes a block. Waits while all blocks are in use and no more may be pinned. A thread that holds a block must
    /// call `try_take` instead, to avoid a deadlock.
    [[nodiscard]] block take() { return {*this, get(true)}; }
    /// Takes a block without waiting; its data is null when no block is available.
    [[nodiscard]] block try_take() { return {*this, get(false)}; }
    [[nodiscard]] static block none() noexcept { return {}; }

    /// Returns the number of pinned blocks, and how many of them are free.
    [[nodiscard]] std::pair<std::size_t, std::size_t> counts() const {
        std::lock_guard const lock{mutex_};
        return {pinned_, free_.size()};
    }

   private:
    [[nodiscard]] std::byte* get(bool may_wait) {
        {
            std::unique_lock lock{mutex_};
            for (;;) {
                if (!free_.empty()) {
                    auto* const p = free_.back();
                    free_.pop_back();
                    return p;
                }
                if (pinned_ < most_) break;
                if (!may_wait) return nullptr;
                changed_.wait(lock);  // mutant: cuda_slot_wait
            }
            free_.reserve(pinned_ + 1);  // so that give_back does not throw
            ++pinned_;
        }
        try {
            return static_cast<std::byte*>(pinned_space{}.allocate(block_bytes_));
        } catch (...) {
            std::lock_guard const lock{mutex_};
            --pinned_;
            changed_.notify_one();
            throw;
        }
    }
    void give_back(std::byte* p) noexcept {
        std::lock_guard const lock{mutex_};
        free_.push_back(p);     // reserved
        changed_.notify_one();  // mutant: cuda_slot_wake
    }

    std::size_t block_bytes_, most_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::byte*> free_;
    std::size_t pinned_ = 0;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::cuda::detail
