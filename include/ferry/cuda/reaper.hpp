// ferry: tensors that are released when a stream has got past them, on a thread of the user's choice.
#pragma once

#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/device_guard.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/order.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/tensor/managed.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace ferry::inline v0::cuda {

/// Holds tensors that queued work still uses (R50) and drops them once it is done: in `poll`, on the thread that calls
/// it, and in the destructor, which waits. Deleters never run on a thread of CUDA's. Thread-safe but for its end; not
/// movable.
class reaper {
   public:
    reaper() = default;
    reaper(reaper const&) = delete;
    reaper& operator=(reaper const&) = delete;
    /// Waits for the work that its tensors are part of, stream by stream, and drops them.
    ~reaper() {
        for (auto& g : guests_) detail::wait_to_release(g.done.get());  // mutant: cuda_reaper_end
    }

    /// Drops the tensors whose work is done, and says how many. Does not block.
    /// \throws error  what an event reports; its tensor stays, and those that were not looked at yet
    std::size_t poll() {
        std::vector<guest> gone;  // dropped behind the lock: a deleter may do anything (R67)
        {
            std::lock_guard const lock{mutex_};
            gone.reserve(guests_.size());
            free_.reserve(free_.size() + guests_.size());
            for (std::size_t i = 0; i < guests_.size();) {
                if (!guests_[i].done.is_done()) {  // mutant: cuda_reaper_poll
                    ++i;
                    continue;
                }
                gone.push_back(std::move(guests_[i]));
                free_.push_back({gone.back().device_id, std::move(gone.back().done)});
                if (i + 1 < guests_.size()) guests_[i] = std::move(guests_.back());
                guests_.pop_back();
            }
        }
        return gone.size();
    }
    /// Tensors that it holds.
    [[nodiscard]] std::size_t size() const {
        std::lock_guard const lock{mutex_};
        return guests_.size();
    }

   private:
    friend void release_after(stream_token, reaper&, managed_tensor&&);

    struct guest {
        std::int32_t device_id;
        event done;
        managed_tensor tensor;
    };
    struct idle {
        std::int32_t device_id;
        event e;
    };

    void add(stream_token on, managed_tensor&& tensor) {
        std::int32_t const id = detail::device_of(on, "ferry::cuda::release_after");
        device_guard const current{id};
        detail::require_free_default(on, "ferry::cuda::release_after");
        std::lock_guard const lock{mutex_};
        if (guests_.size() == guests_.capacity()) guests_.reserve(guests_.size() < 16 ? 16 : 2 * guests_.size());
        event done = take(id);
        done.record(detail::handle_of(on));                           // mutant: cuda_reaper_record
        guests_.push_back({id, std::move(done), std::move(tensor)});  // reserved
    }
    [[nodiscard]] event take(std::int32_t device_id) {
        for (auto& known : free_) {
            if (known.device_id != device_id) continue;
            event e = std::move(known.e);
            std::swap(known, free_.back());
            free_.pop_back();
            return e;
        }
        return event{};
    }

    mutable std::mutex mutex_;
    std::vector<guest> guests_;
    std::vector<idle> free_;
};

/// Drops a tensor once all that is queued on `on` now has run, through the reaper. A default stream that leaves its
/// device out is that of the tensor's. Never blocks.
///
/// Owns `tensor` on success; on failure it is still the caller's.
/// \throws error  errc::stream, capturing; what the driver reports;  std::bad_alloc
inline void release_after(stream_token on, reaper& by, managed_tensor&& tensor) {
    detail::require_stream(on, "ferry::cuda::release_after");
    if (tensor) by.add(on.on_device(tensor.device()), std::move(tensor));  // mutant: cuda_release_device
}

}  // namespace ferry::inline v0::cuda
