// ferry: which memory was handed out and not written yet.
#pragma once

#include <ferry/config.hpp>

#include <array>
#include <cstddef>
#include <mutex>

namespace ferry::inline v0::cuda::detail {

/// The latest blocks whose pages nobody has touched. A guess: a wrong one costs speed and nothing else. Thread-safe.
class fresh_notes {
   public:
    void add(void const* p) {
        std::lock_guard const lock{mutex_};
        known_[next_++ % known_.size()] = p;
    }
    /// Whether a block is one of them, which it is not any more.
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

}  // namespace ferry::inline v0::cuda::detail
