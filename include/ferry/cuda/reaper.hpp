// ferry: releases tensors after queued work, on a thread that the caller chooses.
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

namespace FERRY_NAMESPACE::cuda {

/// Holds tensors that queued work still uses (R50), and releases them after that work has completed: in `poll`, on the
/// calling thread, and in the destructor, which waits. Deleters never run on a thread that CUDA created. Thread-safe,
/// except for the destructor. Not movable.
class reaper {
   public:
    reaper() = default;
    reaper(reaper const&) = delete;
    reaper& operator=(reaper const&) = delete;
    /// Waits for the work of all held tensors, then releases them.
    ~reaper() {
        for (auto& g : held_) detail::wait_to_release(g.done.get());
    }

    /// Releases the tensors whose work has completed. Does not block.
    ///
    /// \return  number of tensors released
    /// \throws error           errors of an event, whose tensor remains held, as do the tensors not examined yet
    /// \throws std::bad_alloc  when host memory cannot be allocated
    std::size_t poll() {
        std::vector<held_tensor> finished;  // released after unlocking: a deleter may call any function (R67)
        {
            std::lock_guard const lock{mutex_};
            finished.reserve(held_.size());
            idle_.reserve(idle_.size() + held_.size());
            for (std::size_t i = 0; i < held_.size();) {
                if (!held_[i].done.is_done()) {
                    ++i;
                    continue;
                }
                finished.push_back(std::move(held_[i]));
                idle_.push_back({finished.back().device_id, std::move(finished.back().done)});
                if (i + 1 < held_.size()) held_[i] = std::move(held_.back());
                held_.pop_back();
            }
        }
        return finished.size();
    }
    /// Returns the number of tensors that are held.
    [[nodiscard]] std::size_t size() const {
        std::lock_guard const lock{mutex_};
        return held_.size();
    }

   private:
    friend void release_after(stream_token, reaper&, managed_tensor&&);

    struct held_tensor {
        std::int32_t device_id;
        event done;
        managed_tensor tensor;
    };
    struct idle_event {
        std::int32_t device_id;
        event e;
    };

    void add(stream_token on, managed_tensor&& tensor) {
        std::int32_t const id = detail::device_of(on, "ferry::cuda::release_after");
        device_guard const current{id};
        detail::require_uncaptured_default(on, "ferry::cuda::release_after");
        std::lock_guard const lock{mutex_};
        if (held_.size() == held_.capacity()) held_.reserve(held_.size() < 16 ? 16 : 2 * held_.size());
        event done = take(id);
        done.record(detail::handle_of(on));
        held_.push_back({id, std::move(done), std::move(tensor)});  // reserved
    }
    [[nodiscard]] event take(std::int32_t device_id) {
        for (auto& known : idle_) {
            if (known.device_id != device_id) continue;
            event e = std::move(known.e);
            std::swap(known, idle_.back());
            idle_.pop_back();
            return e;
        }
        return event{};
    }

    mutable std::mutex mutex_;
    std::vector<held_tensor> held_;
    std::vector<idle_event> idle_;
};

/// Passes a tensor to a reaper, which releases it after all work already queued on `on` has completed. Does not block.
/// The reaper owns the tensor on success; on failure the caller still owns it.
///
/// \param on      stream of the work that uses the tensor; a default stream without a device belongs to the tensor's
///                device
/// \param by      reaper, whose `poll` or destructor releases the tensor
/// \param tensor  tensor to release
/// \throws error           errc::stream, capturing; errors of CUDA
/// \throws std::bad_alloc  when host memory cannot be allocated
inline void release_after(stream_token on, reaper& by, managed_tensor&& tensor) {
    detail::require_stream(on, "ferry::cuda::release_after");
    if (tensor) by.add(on.on_device(tensor.device()), std::move(tensor));
}

}  // namespace FERRY_NAMESPACE::cuda
