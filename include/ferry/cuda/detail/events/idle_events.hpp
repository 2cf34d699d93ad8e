// ferry: a process-wide pool of events that are not in use.
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/error.hpp>

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace FERRY_NAMESPACE::cuda::detail {

/// An event without timing, with its device and context. Never destroyed, because destroying an event is undefined
/// behaviour after a device reset, which is often the last CUDA call of a program. An event created before a reset is
/// not reused, because its handle is invalid.
struct pooled_event {
    std::int32_t device_id = 0;
    unsigned long long context = 0;
    cudaEvent_t e = nullptr;
};

/// The events returned by threads that have ended and by tensors that have been released. Thread-safe.
class idle_events {
   public:
    /// Returns the pool, which is never destroyed: threads end and deleters run during the shutdown of the process.
    [[nodiscard]] FERRY_HIDDEN static idle_events& all() {
        static auto* const one = new idle_events;
        return *one;
    }

    /// Takes an event of the current device and context; creates one when there is none.
    /// \throws error  errors of CUDA
    [[nodiscard]] pooled_event take(std::int32_t device_id, unsigned long long context) {
        {
            std::lock_guard const lock{mutex_};
            for (auto& known : events_) {
                if (known.device_id != device_id || known.context != context) continue;
                pooled_event const found = known;
                known = events_.back();
                events_.pop_back();
                return found;
            }
        }
        relaxed_capture_mode const relaxed;
        pooled_event made{device_id, context, nullptr};
        check(cudaEventCreateWithFlags(&made.e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        return made;
    }
    /// Returns events to the pool. Leaks them if the pool cannot allocate memory for its list.
    void put(std::span<pooled_event const> more) noexcept {
        try {
            std::lock_guard const lock{mutex_};
            events_.insert(events_.end(), more.begin(), more.end());
        } catch (...) {
        }
    }

   private:
    idle_events() = default;

    std::mutex mutex_;
    std::vector<pooled_event> events_;
};

}  // namespace FERRY_NAMESPACE::cuda::detail
