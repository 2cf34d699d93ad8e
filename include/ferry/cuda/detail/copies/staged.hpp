// ferry: transfers between pageable memory and a device through pinned slots, whose host side lanes share.
#pragma once

#include <ferry/cuda/choose.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/detail/events/idle_events.hpp>
#include <ferry/cuda/detail/copies/lanes.hpp>
#include <ferry/cuda/recycled.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace FERRY_NAMESPACE::cuda::detail {

/// A transfer of blocks on one stream, in chunks. The calling thread queues the copies between the device and the
/// slots; it and the lanes copy between the slots and pageable memory, so that lanes never call CUDA. The stream's
/// device must be current. Not thread-safe.
class staged {
   public:
    staged(lane_team& team, recycled<pinned_space> const& pinned, staging const& cut, std::size_t bytes, bool to_host,
           std::int32_t device_id, cudaStream_t s)
        : team_{team},
          pinned_{pinned.lend(std::min(bytes, cut.chunk * most_slots), least_staged)},
          lanes_{cut.lanes},
          chunk_{std::min(cut.chunk, size())},
          to_host_{to_host},
          copies_{cut.caller_copies},
          device_id_{device_id},
          stream_{s} {
        if (!is_ready()) return;
        slots_ = static_cast<std::uint32_t>(std::min(size() / chunk_, most_slots));
        work_ = std::make_shared<shared_copies>(slots_, chunk_, cut.piece, cut.non_temporal);
        context_ = context_id_of(device_id);
        events_.reserve(slots_);
    }
    staged(staged const&) = delete;
    staged& operator=(staged const&) = delete;
    ~staged() {
        if (!is_ready()) return;
        team_.finish(work_);
        if (is_pending_) ignore(cudaStreamSynchronize(stream_));  // after a failure
        idle_events::all().put(events_);
    }

    /// Returns whether there is pinned memory for the transfer.
    [[nodiscard]] bool is_ready() const noexcept { return pinned_ != nullptr; }

    /// Transfers a block. In a transfer to a device, all copies have been queued when the call returns.
    void send(std::byte* dst, std::byte const* src, std::size_t n) {
        for (std::size_t at = 0; at < n; at += chunk_) {
            while (first_ - done_ == slots_) step();
            std::size_t const size = std::min(chunk_, n - at);
            near_[first_ % slots_] = {dst + at, src + at, size};
            if (to_host_) queue(slot(first_), src + at, size, first_);
            else work_->offer(slot(first_), src + at, size);
            if (first_++ == 0 && !team_.start(work_, lanes_)) copies_ = true;
            if (to_host_) advance();
        }
        while (!to_host_ && second_ != first_) step();
    }
    /// Waits until all blocks have been transferred.
    void finish() {
        while (done_ != first_) step();
        is_pending_ = false;
    }

   private:
    static constexpr std::size_t most_slots = shared_copies::most_slots;

    [[nodiscard]] std::size_t size() const noexcept { return pinned_.get_deleter().size; }
    [[nodiscard]] std::byte* slot(std::uint32_t k) const noexcept { return pinned_.get() + k % slots_ * chunk_; }
    void queue(void* to, void const* from, std::size_t n, std::uint32_t k) {
        if (events_.size() <= k % slots_) events_.push_back(idle_events::all().take(device_id_, context_));
        is_pending_ = true;
        check(cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
        check(cudaEventRecord(events_[k % slots_].e, stream_), "cudaEventRecord");
    }
    [[nodiscard]] bool has_arrived(std::uint32_t k) const {
        cudaError_t const now = cudaEventQuery(events_[k % slots_].e);
        if (now == cudaErrorNotReady) return ignore(now), false;
        check(now, "cudaEventQuery");
        return true;
    }
    /// Passes chunks on. In a transfer to the host, chunks that have arrived are passed to the lanes; in a transfer to
    /// a device, chunks that the lanes have copied are queued on the stream.
    void advance() {
        if (to_host_) {
            for (; second_ != first_ && has_arrived(second_); ++second_)
                work_->offer(near_[second_ % slots_].to, slot(second_), near_[second_ % slots_].size);
            while (done_ != second_ && work_->is_copied(done_)) ++done_;
        } else {
            for (; second_ != first_ && work_->is_copied(second_); ++second_)
                queue(near_[second_ % slots_].to, slot(second_), near_[second_ % slots_].size, second_);
            // The events are queried only when a slot is needed, or at the end.
            if (done_ != second_ && (first_ - done_ == slots_ || second_ == first_) && has_arrived(done_)) ++done_;
        }
    }
    void step() {
        advance();
        if (copies_ && work_->copy_piece()) return;
        // With nothing to copy, waits for the next chunk on the stream.
        std::uint32_t const next = to_host_ ? second_ : done_;
        if (next != (to_host_ ? first_ : second_) && (to_host_ || second_ == first_))
            check(cudaEventSynchronize(events_[next % slots_].e), "cudaEventSynchronize");
        else relax_processor();
    }

    struct block {
        std::byte* to;
        std::byte const* from;
        std::size_t size;
    };
    lane_team& team_;
    recycled<pinned_space>::loan pinned_;
    int lanes_;
    std::size_t chunk_;
    bool to_host_, copies_;
    std::int32_t device_id_;
    cudaStream_t stream_;
    std::uint32_t slots_ = 0;
    std::shared_ptr<shared_copies> work_;
    unsigned long long context_ = 0;
    std::vector<pooled_event> events_;
    block near_[most_slots];
    bool is_pending_ = false;                          // a copy may use the slots
    std::uint32_t first_ = 0, second_ = 0, done_ = 0;  // chunks that were begun, passed on, and are complete
};

}  // namespace FERRY_NAMESPACE::cuda::detail
