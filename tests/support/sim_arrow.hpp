// Events of the simulated device for Arrow's C device interface: detects missing waits without a GPU.
#pragma once

#include <ferry/arrow/events.hpp>
#include <support/sim_space.hpp>

#include <atomic>
#include <memory>
#include <utility>

namespace support {

/// The back end of a simulated device with events. References the system.
class sim_arrow {
   public:
    explicit sim_arrow(sim_system& sim) : sim_{&sim} {}

    /// The target of `sync_event`: a handle of the gate, like a cudaEvent_t*.
    class event {
       public:
        event(sim_gate reached, std::atomic<int>& live)
            : handle_{std::make_unique<sim_gate>(std::move(reached))}, live_{&live} {
            ++live;
        }
        event(event&& other) noexcept : handle_{std::move(other.handle_)}, live_{other.live_} {}
        ~event() {
            if (handle_ != nullptr) --*live_;
        }
        [[nodiscard]] void* get() const { return handle_.get(); }

       private:
        std::unique_ptr<sim_gate> handle_;
        std::atomic<int>* live_;
    };

    [[nodiscard]] bool reaches(ferry::device d) const { return sim_->reaches(d); }
    void wait_for_event(void* e, ferry::device, ferry::stream_token on) {
        ++waits;
        if (fails) throw ferry::error{ferry::errc::driver, "sim", ferry::message{"injected"}};
        auto const gate = *static_cast<sim_gate*>(e);
        if (on.names_stream()) sim_->queue(on, [gate] { gate.pass(); });
        else gate.pass();
    }
    [[nodiscard]] event record_event(ferry::device, ferry::stream_token on) {
        if (fails) throw ferry::error{ferry::errc::driver, "sim", ferry::message{"injected"}};
        sim_gate const reached;
        if (on.names_stream()) sim_->queue(on, [reached] { reached.open(); });
        else reached.open();
        return {reached, live_events};
    }

    std::atomic<int> waits = 0, live_events = 0;
    bool fails = false;

   private:
    sim_system* sim_;
};

static_assert(ferry::arrow_event_back_end<sim_arrow>);

}  // namespace support
