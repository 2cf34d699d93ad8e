// ferry: the mark by which another process knows that the work on its memory has run.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/ipc_event.hpp>
#include <ferry/cuda/ipc_memory.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/stream.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace ferry::inline v0::cuda::detail {

/// One interprocess event for all the work on one mapping, whatever streams it is queued on: each of them is joined to
/// a stream of the mark's own, and the event is recorded there, so that a later record covers all earlier ones, and one
/// handle is enough to say so. Move-only; used by one thread at a time.
class done_mark {
   public:
    /// On the device that the other process has the memory on; nothing when there is no free event.
    /// \throws error  what the driver reports
    [[nodiscard]] static std::optional<done_mark> make(std::shared_ptr<ipc_events> from, std::int32_t device_id) {
        auto event = from->of(device_id).take();
        if (!event) return std::nullopt;
        done_mark made{std::move(from), std::move(*event)};
        beside_captures const quietly;
        made.joined_.emplace(device_id);
        return made;
    }
    done_mark(done_mark&& other) noexcept
        : events_{std::move(other.events_)},
          event_{std::move(other.event_)},
          joined_{std::exchange(other.joined_, std::nullopt)} {}
    done_mark& operator=(done_mark&&) = delete;
    /// Waits for all that was added; then the event is free for others. When CUDA is gone, so is the work.
    ~done_mark() {
        if (events_ == nullptr) return;  // moved from
        try {
            if (joined_) {
                beside_captures const quietly;
                joined_->wait();  // mutant: cuda_done_wait
            }
            events_->of(event_.device_id()).put(std::move(event_));
        } catch (...) {  // nobody uses the event again: it may not rest
        }
    }

    /// All that is queued on `on` now; its device may be another one. Does not block.
    /// \throws error  errc::capturing, stream; what the driver reports
    void add(stream_token on) {
        cuda::order(on, *joined_);  // mutant: cuda_done_order
        device_guard const current{event_.device_id()};
        event_.record(joined_->get());  // mutant: cuda_done_all
    }
    [[nodiscard]] ipc_handle handle() const { return event_.handle(); }

   private:
    done_mark(std::shared_ptr<ipc_events> events, ipc_event event) noexcept
        : events_{std::move(events)}, event_{std::move(event)} {}

    std::shared_ptr<ipc_events> events_;  // null when moved from
    ipc_event event_;
    std::optional<stream> joined_;
};

}  // namespace ferry::inline v0::cuda::detail
