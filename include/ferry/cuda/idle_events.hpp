// ferry: events that nobody uses at the moment.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/error.hpp>

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace ferry::inline v0::cuda::detail {

/// An event without timing, and what it belongs to. Plain data: no event is destroyed, since after a reset of the
/// device, which often ends a program, that is undefined. One from before a reset is never touched again: its handle
/// points to what is gone.
struct kept_event {
    std::int32_t device_id = 0;
    unsigned long long context = 0;
    cudaEvent_t e = nullptr;
};

/// What threads and tensors left behind for others. Thread-safe.
class idle_events {
   public:
    /// Never destroyed: threads end, and deleters run, until the very end.
    [[nodiscard]] FERRY_HIDDEN static idle_events& all() {
        static auto* const one = new idle_events;
        return *one;
    }

    /// One of the device and the context that are current; a new one where none is left.
    /// \throws error  what the driver reports
    [[nodiscard]] kept_event take(std::int32_t device_id, unsigned long long context) {
        {
            std::lock_guard const lock{mutex_};
            for (auto& known : left_) {
                if (known.device_id != device_id || known.context != context) continue;
                kept_event const found = known;
                known = left_.back();
                left_.pop_back();
                return found;
            }
        }
        beside_captures const quietly;
        kept_event made{device_id, context, nullptr};
        check(cudaEventCreateWithFlags(&made.e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        return made;
    }
    /// Where there is no memory to keep them they are leaked.
    void put(std::span<kept_event const> more) noexcept {
        try {
            std::lock_guard const lock{mutex_};
            left_.insert(left_.end(), more.begin(), more.end());
        } catch (...) {
        }
    }

   private:
    idle_events() = default;

    std::mutex mutex_;
    std::vector<kept_event> left_;
};

}  // namespace ferry::inline v0::cuda::detail
