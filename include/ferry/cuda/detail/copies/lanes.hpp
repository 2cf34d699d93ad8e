// ferry: the host threads of a copier, each with its streams, slots and events.
#pragma once

#include <ferry/cuda/detail/capture.hpp>
#include <ferry/cuda/detail/copies/staged.hpp>
#include <ferry/cuda/detail/memory/pinned_blocks.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/huge_pages.hpp>
#include <ferry/cuda/stream.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace FERRY_NAMESPACE::cuda::detail {

/// A lane's stream on one device, with an event for each slot. The device must be current at construction.
struct lane_stream {
    explicit lane_stream(std::int32_t id) : device_id{id}, own{id} {}

    [[nodiscard]] event& event_for(int slot) {
        while (static_cast<int>(events.size()) <= slot) events.emplace_back();
        return events[static_cast<std::size_t>(slot)];
    }

    std::int32_t device_id;
    stream own;
    std::vector<event> events;
};

/// The `link` (staged.hpp) between a lane and its device for one job: takes pinned blocks for the duration of the job
/// and divides them into slots.
class lane_link {
   public:
    lane_link(lane_stream& g, pinned_blocks& from, std::size_t block_bytes, staging const& cut) : stream_{g} {
        int const wanted = cut.slots < most_slots ? cut.slots : most_slots;
        auto const per_block = static_cast<int>(block_bytes / cut.chunk);
        blocks_.push_back(from.take(block_bytes));
        for (;;) {
            for (int i = 0; i < per_block && count_ < wanted; ++i)
                slots_[count_++] = blocks_.back().get() + static_cast<std::size_t>(i) * cut.chunk;
            if (count_ == wanted) break;
            auto more = from.try_take(block_bytes);
            if (more == nullptr) break;
            blocks_.push_back(std::move(more));
        }
        for (int i = 0; i < count_; ++i) static_cast<void>(stream_.event_for(i));
    }

    [[nodiscard]] int slots() const noexcept { return count_; }
    [[nodiscard]] std::byte* slot(int i) const noexcept { return slots_[i]; }
    void start(int i, void* to, void const* from, std::size_t n) {
        check(cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, stream_.own.get()), "cudaMemcpyAsync");
        stream_.event_for(i).record(stream_.own.get());
    }
    void wait(int i) { stream_.event_for(i).wait(); }
    void drain() noexcept { ignore(cudaStreamSynchronize(stream_.own.get())); }

   private:
    lane_stream& stream_;
    std::vector<pinned_blocks::block> blocks_;
    std::byte* slots_[most_slots];
    int count_ = 0;
};

/// Threads that execute staged jobs, first in, first out. A lane waits for its own copies only, so callers of `run`
/// must have waited for the work that the job depends on. Threads start when a job first needs them; the destructor
/// finishes the queued jobs and joins the threads. Thread-safe.
class lane_team {
   public:
    lane_team(int most_lanes, std::size_t slot_bytes, std::size_t most_pinned) noexcept
        : most_lanes_{most_lanes},
          slot_bytes_{slot_bytes},
          slots_{std::max(most_pinned, slot_bytes), std::max(most_pinned, slot_bytes)} {}
    lane_team(lane_team const&) = delete;
    lane_team& operator=(lane_team const&) = delete;
    ~lane_team() {
        {
            std::lock_guard const lock{mutex_};
            stopping_ = true;
            work_.notify_all();
        }
        for (auto& t : threads_) t.join();
    }

    /// Executes a job. Blocks until the job is complete. After a failure, blocks until no lane is working on the job,
    /// and throws the first error.
    void run(staged_job& job) {
        start(job);
        if (auto const failure = await(job)) std::rethrow_exception(failure);
    }
    /// Queues a job, which must stay valid until `await` returns. On failure the job is not queued.
    void start(staged_job& job) {
        std::lock_guard const lock{mutex_};
        start_threads(job.cut.lanes);
        jobs_.push_back(&job);
        // Wakes only as many lanes as the job uses, because waking a lane takes time.
        for (int i = 0; i < job.cut.lanes; ++i) work_.notify_one();
    }
    /// Waits until a started job is complete, or, after `cancel`, until no lane is working on it. Returns its first
    /// error, or null.
    [[nodiscard]] std::exception_ptr await(staged_job& job) {
        if (job.cut.populate_ahead) populate_pages_ahead(job, huge_page, populate_pages);
        std::unique_lock lock{mutex_};
        done_.wait(lock, [&] { return job.working == 0 && !job.has_more(); });
        std::erase(jobs_, &job);
        return std::exchange(job.failure, nullptr);
    }

    [[nodiscard]] int started() const {
        std::lock_guard const lock{mutex_};
        return static_cast<int>(threads_.size());
    }
    /// Returns the number of pinned slots, and how many of them are free.
    [[nodiscard]] std::pair<std::size_t, std::size_t> slots() const {
        auto const [pinned, kept] = slots_.bytes();
        return {pinned / slot_bytes_, kept / slot_bytes_};
    }

   private:
    /// Starts threads until `wanted` threads are running. If some cannot be started, the others suffice; throws only
    /// when no thread is running.
    void start_threads(int wanted) {
        if (wanted > most_lanes_) wanted = most_lanes_;
        while (static_cast<int>(threads_.size()) < wanted) {
            try {
                threads_.emplace_back([this] { work(); });
            } catch (...) {
                if (threads_.empty()) throw;
                return;
            }
        }
    }

    [[nodiscard]] staged_job* find() noexcept {
        for (auto* const job : jobs_)
            if (job->has_more() && job->joined < job->cut.lanes) return job;
        return nullptr;
    }

    void work() {
        relaxed_capture_mode const relaxed;  // this work belongs to no graph
        std::list<lane_stream> lane_streams;
        int current = -1;
        std::unique_lock lock{mutex_};
        for (;;) {
            staged_job* job = nullptr;
            work_.wait(lock, [&] { return (job = find()) != nullptr || stopping_; });
            if (job == nullptr) return;
            ++job->joined;
            ++job->working;
            lock.unlock();
            std::exception_ptr failure;
            try {
                if (current != job->device_id) {
                    check(cudaSetDevice(job->device_id), "cudaSetDevice");
                    current = job->device_id;
                }
                lane_link link{lane_stream_of(lane_streams, current), slots_, slot_bytes_, job->cut};
                detail::run(*job, link);
            } catch (...) {
                job->cancel();
                failure = std::current_exception();
            }
            lock.lock();
            if (failure && !job->failure) job->failure = std::move(failure);
            failure = nullptr;
            if (--job->working == 0) done_.notify_all();
        }
    }
    [[nodiscard]] static lane_stream& lane_stream_of(std::list<lane_stream>& lane_streams, std::int32_t device_id) {
        for (auto& g : lane_streams)
            if (g.device_id == device_id) return g;
        return lane_streams.emplace_back(device_id);
    }

    int most_lanes_;
    std::size_t slot_bytes_;
    pinned_blocks slots_;
    mutable std::mutex mutex_;
    std::condition_variable work_, done_;
    std::deque<staged_job*> jobs_;
    std::vector<std::thread> threads_;
    bool stopping_ = false;
};

}  // namespace FERRY_NAMESPACE::cuda::detail
