// ferry: interprocess events.
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/driver.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/ipc/memory.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <source_location>
#include <tuple>
#include <utility>

namespace FERRY_NAMESPACE::cuda {

/// An interprocess event, created by this process or opened from another process's handle. A wait refers to the latest
/// record, by any process, at the time when the wait is queued, so the event must be recorded before another process
/// queues its wait. The exporter's event must outlive the events that importers open from its handle. Move-only.
class ipc_event {
   public:
    /// Creates an event that other processes can open.
    ///
    /// \param device_id  device of the event
    /// \throws error  errc::device; errors of CUDA, including when the driver supports no more events in this process
    explicit ipc_event(std::int32_t device_id) : device_id_{device_id} {
        device_guard const on{device_id};
        detail::relaxed_capture_mode const relaxed;
        check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming | cudaEventInterprocess),
              "cudaEventCreateWithFlags");
    }
    /// Opens an event of another process.
    ///
    /// \param from       the exporter's handle
    /// \param device_id  ordinal of the exporter's device in this process
    /// \throws error  errc::stale_handle, same_process, unsupported_platform, device; errors of CUDA
    ipc_event(ipc_handle const& from, std::int32_t device_id,
              std::source_location where = std::source_location::current())
        : device_id_{device_id} {
        cudaIpcEventHandle_t handle;
        static_assert(sizeof handle == sizeof from);
        std::memcpy(&handle, from.data(), sizeof handle);
        device_guard const on{device_id};
        detail::relaxed_capture_mode const relaxed{detail::driver()};
        detail::check_ipc(cudaIpcOpenEventHandle(&handle_, handle), "cudaIpcOpenEventHandle", where);
    }
    ipc_event(ipc_event&& other) noexcept
        : device_id_{other.device_id_}, handle_{std::exchange(other.handle_, nullptr)} {}
    ipc_event& operator=(ipc_event&& other) noexcept {
        std::swap(device_id_, other.device_id_);
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~ipc_event() {
        if (handle_ == nullptr) return;
        detail::relaxed_capture_mode const relaxed;
        detail::ignore(cudaEventDestroy(handle_));
    }

    /// Returns a handle with which other processes can open the event.
    ///
    /// \throws error  errors of CUDA
    [[nodiscard]] ipc_handle handle() const {
        device_guard const on{device_id_};  // some drivers crash with another device current
        detail::relaxed_capture_mode const relaxed{detail::driver()};
        cudaIpcEventHandle_t handle;
        check(cudaIpcGetEventHandle(&handle, handle_), "cudaIpcGetEventHandle");
        ipc_handle out;
        std::memcpy(out.data(), &handle, sizeof out);
        return out;
    }
    /// Records this event on a stream, after all work queued there so far. Replaces any earlier record. Does not block.
    ///
    /// \param s  stream of the event's device
    /// \throws error  errc::stream, capturing; errors of CUDA
    void record(cudaStream_t s) { check(cudaEventRecord(handle_, s), "cudaEventRecord"); }
    /// Makes later work on a stream wait for the recorded work. Does not block.
    ///
    /// \param s  stream of any device
    /// \throws error  errc::stream, capturing; errors of CUDA
    void enqueue_wait(cudaStream_t s) const { check(cudaStreamWaitEvent(s, handle_, 0), "cudaStreamWaitEvent"); }
    /// Returns whether all recorded work has completed. Does not block.
    ///
    /// \throws error  errors of CUDA
    [[nodiscard]] bool is_done() const { return detail::is_done(handle_); }
    /// Blocks the host until all recorded work has completed.
    ///
    /// \throws error  errors of CUDA
    void wait() const { detail::wait(handle_); }
    /// Returns the ordinal of the event's device.
    [[nodiscard]] std::int32_t device_id() const noexcept { return device_id_; }

   private:
    std::int32_t device_id_;
    cudaEvent_t handle_ = nullptr;
};

/// A bounded pool of reusable interprocess events of one device. Drivers limit the number of these events in a process.
/// Thread-safe.
class ipc_event_pool {
   public:
    /// Constructs an empty pool; events are created when they are needed.
    ///
    /// \param device_id  device of the events
    /// \param most       maximum number of events
    explicit ipc_event_pool(std::int32_t device_id, std::size_t most = 256) noexcept
        : device_id_{device_id}, most_{most} {}

    /// Takes an event whose recorded work has completed, or creates an event. When the result is std::nullopt, the
    /// caller must block the host until the work to be recorded has completed.
    ///
    /// \return  the event; std::nullopt when no event is free and no further event can be created
    /// \throws error  errc::context_lost, no_driver; errors of `ipc_event::is_done`
    [[nodiscard]] std::optional<ipc_event> take() {
        {
            std::lock_guard const lock{mutex_};
            if (auto completed = take_completed()) return completed;
            if (made_ == most_) return std::nullopt;
            ++made_;
        }
        try {
            return ipc_event{device_id_};
        } catch (error const& e) {
            std::lock_guard const lock{mutex_};
            --made_;
            if (e.code() == errc::context_lost || e.code() == errc::no_driver) throw;
            return std::nullopt;
        }
    }
    /// Returns an event to the pool. Its recorded work may still be pending; `take` returns the event only after that
    /// work has completed. Recording the event again before then, on an idle stream, could end the waits of other
    /// processes too early. Recording it again after that work has completed can only prolong these waits.
    ///
    /// \param e  event of this pool
    void put(ipc_event&& e) noexcept {
        std::lock_guard const lock{mutex_};
        try {
            free_.push_back(std::move(e));
        } catch (...) {  // no memory for the list: the event is destroyed
            --made_;
        }
    }

   private:
    /// Finds a completed event, usually the one returned first; queries all of them only when no event may be created.
    /// Requires the lock.
    [[nodiscard]] std::optional<ipc_event> take_completed() {
        auto const last = made_ < most_ && !free_.empty() ? free_.begin() + 1 : free_.end();
        auto const found = std::find_if(free_.begin(), last, [](ipc_event const& e) { return e.is_done(); });
        if (found == last) return std::nullopt;
        std::optional<ipc_event> e{std::move(*found)};
        free_.erase(found);
        return e;
    }

    std::int32_t device_id_;
    std::size_t most_, made_ = 0;
    std::mutex mutex_;
    std::deque<ipc_event> free_;
};

namespace detail {

/// The interprocess events of a process, by device. Their users share ownership, so that no event is destroyed while
/// another process may use it.
class ipc_events {
   public:
    explicit ipc_events(std::size_t most) noexcept : most_{most} {}
    [[nodiscard]] ipc_event_pool& of(std::int32_t device_id) {
        std::lock_guard const lock{mutex_};
        for (auto& [id, pool] : pools_)
            if (id == device_id) return pool;
        auto& made = pools_.emplace_back(std::piecewise_construct, std::forward_as_tuple(device_id),
                                         std::forward_as_tuple(device_id, most_));
        return made.second;
    }

   private:
    std::size_t most_;
    std::mutex mutex_;
    std::list<std::pair<std::int32_t, ipc_event_pool>> pools_;
};

}  // namespace detail

}  // namespace FERRY_NAMESPACE::cuda
