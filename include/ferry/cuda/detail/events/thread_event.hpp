// ferry: one event for each thread and device, for ordering streams.
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/detail/events/idle_events.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/stream.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace FERRY_NAMESPACE::cuda::detail {

/// The calling thread's events, one for each device and context. After a device reset, older events are not used. When
/// the thread ends, its events are returned to `idle_events`.
class thread_events {
   public:
    [[nodiscard]] cudaEvent_t get(std::int32_t device_id) {
        unsigned long long const now = context_id_of(device_id);
        for (auto const& known : mine_)
            if (known.device_id == device_id && known.context == now) return known.e;
        mine_.reserve(mine_.size() + 1);
        return mine_.emplace_back(idle_events::all().take(device_id, now)).e;
    }
    /// A stream that was queried.
    struct known_stream {
        unsigned long long id = 0;
        std::int32_t device_id = 0;
        cudaEvent_t e = nullptr;  ///< event last recorded on it, if any
    };
    /// Finds a stream by its id; null when it is not among the most recently added streams.
    [[nodiscard]] known_stream* find(unsigned long long stream_id) noexcept {
        for (auto& known : streams_)
            if (known.id == stream_id) return stream_id != 0 ? &known : nullptr;
        return nullptr;
    }
    [[nodiscard]] known_stream& add(unsigned long long stream_id, std::int32_t device_id) noexcept {
        return streams_[next_++ % streams_.size()] = {stream_id, device_id};
    }

    thread_events() = default;
    thread_events(thread_events const&) = delete;
    thread_events& operator=(thread_events const&) = delete;
    [[nodiscard]] FERRY_HIDDEN static thread_events& of_this_thread() {
        thread_local thread_events mine;
        return mine;
    }
    ~thread_events() { idle_events::all().put(mine_); }

   private:
    std::vector<pooled_event> mine_;
    std::array<known_stream, 16> streams_{};
    std::size_t next_ = 0;
};

inline void record(cudaEvent_t e, cudaStream_t s) {
    check_driver(driver().event_record(e, s), "cuEventRecord", [&] { return cudaEventRecord(e, s); });
}

/// Returns the id of a stream, unique for the life of the process. The stream must not be in capture mode.
[[nodiscard]] inline unsigned long long id_of(cudaStream_t s) {
    unsigned long long id = 0;
    check_driver(driver().stream_id(s, &id), "cuStreamGetId", [&] { return cudaStreamGetId(s, &id); });
    return id;
}

/// Returns this thread's entry for a stream, which is neither a default stream nor in capture mode. Throws when its
/// token states another device. The devices of the 16 most recently added streams are cached.
inline thread_events::known_stream& known_stream(stream_token t) {
    auto& events = thread_events::of_this_thread();
    unsigned long long const id = id_of(handle_of(t));
    auto* known = events.find(id);
    if (known == nullptr) known = &events.add(id, device_of_uncaptured(t));
    require_expected_device(t, known->device_id, "ferry::cuda::order");
    return *known;
}

/// Records this thread's event on a stream that is not in capture mode, and returns it. A wait refers to the latest
/// record at the time when it is queued, so one event serves all orderings of a thread in turn.
[[nodiscard]] inline cudaEvent_t record(stream_token from) {
    cudaStream_t const s = handle_of(from);
    auto* const known = is_default(from) ? nullptr : &known_stream(from);
    if (known != nullptr && known->e != nullptr) {
        record(known->e, s);
        return known->e;
    }
    std::int32_t const device_id = known != nullptr ? known->device_id : from.device_id();
    device_guard const on{device_id};
    cudaEvent_t const e = thread_events::of_this_thread().get(device_id);
    record(e, s);
    if (known != nullptr) known->e = e;
    return e;
}

}  // namespace FERRY_NAMESPACE::cuda::detail
