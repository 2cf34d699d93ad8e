// ferry: a list of allocated blocks that have not been written yet.
#pragma once

#include <ferry/config.hpp>

#include <array>
#include <cstddef>
#include <mutex>

namespace ferry::inline FERRY_ABI_NAMESPACE::cuda::detail {

/// The most recently allocated blocks whose pages have not been written. A hint: a wrong entry only costs time.
/// Thread-safe.
class untouched_blocks {
   public:
    void add(void const* p) {
        std::lock_guard const lock{mutex_};
        known_[next_++ % known_.size()] = p;
    }
    /// Returns whether a block is in the list, and removes it.
    [[nodiscard]] bool take(void const* p) {
        std::lock_guard const lock{mutex_};
        for (auto& known : known_)
            if (known == p) return known = nullptr, true;
        return false;
    }

   private:
    std::mutex mutex_;
    std::array<void const*, 32> known_{};
    std::size_t next_ = 0;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::cuda::detail
