// ferry: one event for each thread and device, to order streams by.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/stream.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace ferry::inline v0::cuda::detail {

/// The event of this thread for the device and the context that are current. An event from before a reset of the device
/// is never touched again: its handle points to what is gone. No event is destroyed: threads that end leave theirs to
/// others, since after a reset, which often ends a program, destroying one is undefined.
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
    /// The event that a stream was last recorded on, by the stream's number; null when it is not one of the latest.
    [[nodiscard]] cudaEvent_t last_of(unsigned long long stream_id) const noexcept {
        for (auto const& known : streams_)
            if (known.id == stream_id) return known.e;
        return nullptr;
    }
    void remember(unsigned long long stream_id, cudaEvent_t e) noexcept {
        streams_[next_++ % streams_.size()] = {stream_id, e};
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
        [[nodiscard]] FERRY_HIDDEN static left& all() {
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
    struct stream_event {
        unsigned long long id = 0;
        cudaEvent_t e = nullptr;
    };
    std::array<stream_event, 8> streams_{};
    std::size_t next_ = 0;
};

inline void record(cudaEvent_t e, cudaStream_t s) {
    check_driver(driver().event_record(e, s), "cuEventRecord", [&] { return cudaEventRecord(e, s); });
}

/// A number that no two streams of the process share, be one made after the other is gone. Not of streams that are
/// captured.
[[nodiscard]] inline unsigned long long id_of(cudaStream_t s) {
    unsigned long long id = 0;
    check_driver(driver().stream_id(s, &id), "cuStreamGetId", [&] { return cudaStreamGetId(s, &id); });
    return id;
}

/// Records the event of this thread for the stream's context, and gives it. The stream is not captured. A wait refers
/// to the latest record when it is queued, so that one event serves all that a thread orders, one after the other.
[[nodiscard]] FERRY_HIDDEN inline cudaEvent_t record(stream_token from) {
    thread_local thread_events events;
    cudaStream_t const s = handle_of(from);
    unsigned long long const id = is_default(from) ? 0 : id_of(s);
    cudaEvent_t e = id != 0 ? events.last_of(id) : nullptr;
    if (e != nullptr) {
        record(e, s);
        return e;
    }
    std::int32_t const device_id = device_of_free(from);
    device_guard const on{device_id};
    e = events.get(device_id);
    record(e, s);
    if (id != 0) events.remember(id, e);
    return e;
}

}  // namespace ferry::inline v0::cuda::detail
