// ferry: CUDA events: points in a stream that others wait for.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace ferry::inline v0::cuda {

namespace detail {

/// Whether all that was recorded on an event has run.
[[nodiscard]] inline bool is_done(cudaEvent_t e) {
    beside_captures const quietly;
    cudaError_t const now = cudaEventQuery(e);
    if (now == cudaErrorNotReady) {
        ignore(now);
        return false;
    }
    check(now, "cudaEventQuery");
    return true;
}
/// Blocks the host until it has.
inline void wait(cudaEvent_t e) {
    beside_captures const quietly;
    check(cudaEventSynchronize(e), "cudaEventSynchronize");
}

}  // namespace detail

/// An owned event without timing. Move-only. Belongs to the device that was current when it was made.
class event {
   public:
    event() {
        detail::beside_captures const quietly;
        check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    event(event&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
    event& operator=(event&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~event() {
        // After CUDA's end: an error, and nothing to do.
        if (handle_ != nullptr) detail::ignore(cudaEventDestroy(handle_));
    }

    [[nodiscard]] cudaEvent_t get() const noexcept { return handle_; }
    void record(cudaStream_t s) { check(cudaEventRecord(handle_, s), "cudaEventRecord"); }
    /// Whether all that was recorded has run.
    [[nodiscard]] bool is_done() const { return detail::is_done(handle_); }
    /// Blocks the host.
    void wait() const { detail::wait(handle_); }

   private:
    cudaEvent_t handle_ = nullptr;
};

/// Events of one device that are used again and again: making one costs as much as recording it. Thread-safe.
class event_pool {
   public:
    explicit event_pool(std::int32_t device_id) noexcept : device_id_{device_id} {}

    /// \throws error  when a new one is needed and cannot be had
    [[nodiscard]] event take() {
        {
            std::lock_guard const lock{mutex_};
            if (!free_.empty()) {
                event e = std::move(free_.back());
                free_.pop_back();
                return e;
            }
        }
        device_guard const on{device_id_};
        return event{};
    }
    void put(event&& e) noexcept {
        try {
            std::lock_guard const lock{mutex_};
            free_.push_back(std::move(e));
        } catch (...) {  // no memory to keep it: it is destroyed
        }
    }

   private:
    std::int32_t device_id_;
    std::mutex mutex_;
    std::vector<event> free_;
};

}  // namespace ferry::inline v0::cuda
