// ferry: the interprocess event that signals to an exporter that an importer's work has completed.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/ipc/event.hpp>
#include <ferry/cuda/ipc/memory.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/stream.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace FERRY_NAMESPACE::cuda::detail {

/// One interprocess event for all work on a mapping, on any number of streams. A stream of this object waits for each
/// of them, and the event is recorded on that stream. Because the latest record covers all earlier ones, one handle
/// suffices. Move-only; not thread-safe.
class completion_event {
   public:
    /// Creates a completion event on the exporter's device; std::nullopt when there is no free event.
    /// \throws error  errors of CUDA
    [[nodiscard]] static std::optional<completion_event> make(std::shared_ptr<ipc_events> from,
                                                              std::int32_t device_id) {
        auto event = from->of(device_id).take();
        if (!event) return std::nullopt;
        completion_event made{std::move(from), std::move(*event)};
        relaxed_capture_mode const relaxed;
        made.joined_.emplace(device_id);
        return made;
    }
    completion_event(completion_event&& other) noexcept
        : events_{std::move(other.events_)},
          event_{std::move(other.event_)},
          joined_{std::exchange(other.joined_, std::nullopt)} {}
    completion_event& operator=(completion_event&&) = delete;
    /// Waits for all added work, then returns the event to its pool. Does nothing after CUDA has shut down.
    ~completion_event() {
        if (events_ == nullptr) return;  // moved from
        try {
            if (joined_) {
                relaxed_capture_mode const relaxed;
                joined_->wait();
            }
            events_->of(event_.device_id()).put(std::move(event_));
        } catch (...) {  // the event may not have completed: it is not reused
        }
    }

    /// Adds all work that is queued on `on`, a stream of any device. Does not block.
    /// \throws error  errc::capturing, stream; errors of CUDA
    void add(stream_token on) {
        cuda::order(on, *joined_);
        device_guard const current{event_.device_id()};
        event_.record(joined_->get());
    }
    [[nodiscard]] ipc_handle handle() const { return event_.handle(); }

   private:
    completion_event(std::shared_ptr<ipc_events> events, ipc_event event) noexcept
        : events_{std::move(events)}, event_{std::move(event)} {}

    std::shared_ptr<ipc_events> events_;  // null when moved from
    ipc_event event_;
    std::optional<stream> joined_;
};

}  // namespace FERRY_NAMESPACE::cuda::detail
