// ferry: the pinned slots that lanes share.
#pragma once

#include <ferry/cuda/space.hpp>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace ferry::inline v0::cuda::detail {

/// Blocks of pinned memory of one size, at most so many, pinned when they are first needed and kept: pinning takes a
/// millisecond per MiB. Thread-safe; outlives what was taken from it.
class slot_pool {
   public:
    /// One block, given back when it dies.
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

    /// A block; waits for one when all are lent and no more may be pinned. Who holds one already must not call it, but
    /// `try_take`.
    /// \throws error  errc::out_of_memory, no_driver
    [[nodiscard]] block take() { return {*this, get(true)}; }
    /// A block if there is one at once; a second one of a caller's is worth no waiting. Its data is null otherwise.
    [[nodiscard]] block try_take() { return {*this, get(false)}; }
    [[nodiscard]] static block none() noexcept { return {}; }

    /// Blocks that are pinned, and those of them that nobody has.
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
            free_.reserve(pinned_ + 1);  // so that giving back cannot fail
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

}  // namespace ferry::inline v0::cuda::detail
