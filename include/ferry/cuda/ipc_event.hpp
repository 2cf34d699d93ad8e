// ferry: events that other processes wait for.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/driver.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/ipc_memory.hpp>

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

namespace ferry::inline v0::cuda {

/// An event with a handle, of this process or of another one. A wait refers to the record that is the latest when it is
/// queued, in whichever process: announce a record before the other side may wait for it. Move-only; the exporter's
/// must outlive the importer's. Does not block.
class ipc_event {
   public:
    /// A new one on a device. \throws error  what the driver reports: there are about a thousand for a device
    explicit ipc_event(std::int32_t device_id) : device_id_{device_id} {
        device_guard const on{device_id};
        detail::beside_captures const quietly;
        check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming | cudaEventInterprocess),
              "cudaEventCreateWithFlags");
    }
    /// Another process's. \throws error  errc::stale_handle, same_process, unsupported_platform
    ipc_event(ipc_handle const& from, std::int32_t device_id,
              std::source_location where = std::source_location::current())
        : device_id_{device_id} {
        cudaIpcEventHandle_t handle;
        static_assert(sizeof handle == sizeof from);
        std::memcpy(&handle, from.data(), sizeof handle);
        device_guard const on{device_id};
        detail::beside_captures const quietly{detail::driver()};
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
        detail::beside_captures const quietly;
        detail::ignore(cudaEventDestroy(handle_));
    }

    /// \throws error  what the driver reports
    [[nodiscard]] ipc_handle handle() const {
        device_guard const on{device_id_};  // with another device current some drivers follow a null pointer
        detail::beside_captures const quietly{detail::driver()};
        cudaIpcEventHandle_t handle;
        check(cudaIpcGetEventHandle(&handle, handle_), "cudaIpcGetEventHandle");
        ipc_handle out;
        std::memcpy(out.data(), &handle, sizeof out);
        return out;
    }
    /// The stream must be of the event's device.
    void record(cudaStream_t s) { check(cudaEventRecord(handle_, s), "cudaEventRecord"); }
    /// Work queued on `s` later runs after what was recorded.
    void make_wait(cudaStream_t s) const { check(cudaStreamWaitEvent(s, handle_, 0), "cudaStreamWaitEvent"); }
    /// Whether all that was recorded has run.
    [[nodiscard]] bool is_done() const { return detail::is_done(handle_); }
    /// Blocks the host.
    void wait() const { detail::wait(handle_); }
    [[nodiscard]] std::int32_t device_id() const noexcept { return device_id_; }

   private:
    std::int32_t device_id_;
    cudaEvent_t handle_ = nullptr;
};

/// Interprocess events of one device that are used again and again, at most so many: the driver runs out of them at
/// about a thousand, counted over everything that a process does. Thread-safe.
class ipc_event_pool {
   public:
    explicit ipc_event_pool(std::int32_t device_id, std::size_t most = 256) noexcept
        : device_id_{device_id}, most_{most} {}

    /// One that rests: all that was ever recorded on it has run. None when there is none and no more may be made, or
    /// the driver has no more: then the host waits for the stream instead.
    [[nodiscard]] std::optional<ipc_event> take() {
        {
            std::lock_guard const lock{mutex_};
            if (auto rested = take_rested()) return rested;
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
    /// What was recorded on it need not have run: until it has, nobody gets the event. Recorded anew on an idle stream
    /// before that, it would be over too early for those who wait for its handle; recorded when it rests, they wait
    /// longer, no worse.
    void put(ipc_event&& e) noexcept {
        std::lock_guard const lock{mutex_};
        try {
            free_.push_back(std::move(e));
        } catch (...) {  // no memory to keep it: it is destroyed
            --made_;
        }
    }

   private:
    /// The one that was given back first, mostly. All are asked only when no new one may be made. Under the lock.
    [[nodiscard]] std::optional<ipc_event> take_rested() {
        auto const last = made_ < most_ && !free_.empty() ? free_.begin() + 1 : free_.end();
        // mutant: cuda_event_rests
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

/// The interprocess events of a process. Shared by all that needs them, so that none dies while another process may use
/// it.
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

}  // namespace ferry::inline v0::cuda
