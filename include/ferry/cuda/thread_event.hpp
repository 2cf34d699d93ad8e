// ferry: one event for each thread and device, to order streams by.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>

#include <cstdint>
#include <mutex>
#include <vector>

namespace ferry::cuda::detail {

/// The event of this thread for the device and the context that are current. An event from before a reset of the device is never touched
/// again: its handle points to what is gone. No event is destroyed: threads that end leave theirs to others, since after a
/// reset, which often ends a program, destroying one is undefined.
class thread_events {
   public:
    [[nodiscard]] cudaEvent_t get(std::int32_t device_id) {
        unsigned long long now = context_id();
        if (now == 0) {  // nothing of CUDA has run on this thread
            check(cudaSetDevice(device_id), "cudaSetDevice");
            now = context_id();
        }
        for (auto const& known : mine_)
            if (known.device_id == device_id && known.context == now) return known.e;
        mine_.reserve(mine_.size() + 1);
        return mine_.emplace_back(make(device_id, now)).e;
    }
    thread_events() = default;
    thread_events(thread_events const&) = delete;
    thread_events& operator=(thread_events const&) = delete;
    ~thread_events() {
        try {
            auto& idle = left::all();
            std::lock_guard const lock{idle.mutex};
            idle.slots.insert(idle.slots.end(), mine_.begin(), mine_.end());
        } catch (...) {  // no memory: leaked
        }
    }

   private:
    struct slot {
        std::int32_t device_id;
        unsigned long long context;
        cudaEvent_t e;
    };
    /// What threads left behind. Never destroyed: threads end until the very end.
    struct left {
        std::mutex mutex;
        std::vector<slot> slots;
        [[nodiscard]] static left& all() {
            static auto* const one = new left;
            return *one;
        }
    };

    [[nodiscard]] static slot make(std::int32_t device_id, unsigned long long context) {
        {
            auto& idle = left::all();
            std::lock_guard const lock{idle.mutex};
            for (auto& known : idle.slots) {
                if (known.device_id != device_id || known.context != context) continue;
                slot const found = known;
                known = idle.slots.back();
                idle.slots.pop_back();
                return found;
            }
        }
        beside_captures const quietly;
        slot made{device_id, context, nullptr};
        check(cudaEventCreateWithFlags(&made.e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        return made;
    }

    std::vector<slot> mine_;
};

/// Records the event of this thread for one device, which is current, and gives it. A wait refers to the latest record when it
/// is queued, so that one event serves all that a thread orders, one after the other.
[[nodiscard]] inline cudaEvent_t record(std::int32_t device_id, cudaStream_t s) {
    thread_local thread_events events;
    cudaEvent_t const e = events.get(device_id);
    check(cudaEventRecord(e, s), "cudaEventRecord");
    return e;
}

}  // namespace ferry::cuda::detail
