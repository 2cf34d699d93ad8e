// ferry: the host threads of a copier, each with streams, slots and events of its own.
#pragma once

#include <ferry/cuda/capture.hpp>
#include <ferry/cuda/event.hpp>
#include <ferry/cuda/huge_pages.hpp>
#include <ferry/cuda/slots.hpp>
#include <ferry/cuda/staged.hpp>
#include <ferry/cuda/stream.hpp>

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

namespace ferry::inline v0::cuda::detail {

/// A lane's stream on one device, with an event for each slot. Made with the device current.
struct gear {
    explicit gear(std::int32_t id) : device_id{id}, own{id} {}

    [[nodiscard]] event& mark(int slot) {
        while (static_cast<int>(marks.size()) <= slot) marks.emplace_back();
        return marks[static_cast<std::size_t>(slot)];
    }

    std::int32_t device_id;
    stream own;
    std::vector<event> marks;
};

/// The link of one lane for one job: pinned blocks, cut into the job's slots, for as long as the job takes.
class lane_link {
   public:
    lane_link(gear& g, slot_pool& pool, staging const& cut) : gear_{g} {
        int const wanted = cut.slots < most_slots ? cut.slots : most_slots;
        auto const per_block = static_cast<int>(pool.block_bytes() / cut.chunk);
        blocks_.push_back(pool.take());
        for (;;) {
            for (int i = 0; i < per_block && count_ < wanted; ++i)
                slots_[count_++] = blocks_.back().data() + static_cast<std::size_t>(i) * cut.chunk;
            if (count_ == wanted) break;
            auto more = pool.try_take();
            if (more.data() == nullptr) break;
            blocks_.push_back(std::move(more));
        }
        for (int i = 0; i < count_; ++i) static_cast<void>(gear_.mark(i));
    }

    [[nodiscard]] int slots() const noexcept { return count_; }
    [[nodiscard]] std::byte* slot(int i) const noexcept { return slots_[i]; }
    void start(int i, void* to, void const* from, std::size_t n) {
        check(cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, gear_.own.get()), "cudaMemcpyAsync");
        gear_.mark(i).record(gear_.own.get());  // mutant: cuda_lane_mark
    }
    void wait(int i) { gear_.mark(i).wait(); }                                 // mutant: cuda_lane_wait
    void drain() noexcept { ignore(cudaStreamSynchronize(gear_.own.get())); }  // mutant: cuda_lane_drain

   private:
    gear& gear_;
    std::vector<slot_pool::block> blocks_;
    std::byte* slots_[most_slots];
    int count_ = 0;
};

/// Threads that carry out staged jobs, in the order in which they come. A lane waits for nothing but copies of its own,
/// which depend on nobody's stream: who calls `run` has waited for what the job depends on. Starts a thread when a job
/// first needs it; the destructor finishes what is queued and joins. Thread-safe.
class lane_team {
   public:
    lane_team(int most_lanes, std::size_t slot_bytes, std::size_t most_pinned) noexcept
        : most_lanes_{most_lanes}, pool_{slot_bytes, most_pinned} {}
    lane_team(lane_team const&) = delete;
    lane_team& operator=(lane_team const&) = delete;
    ~lane_team() {
        {
            std::lock_guard const lock{mutex_};
            stopping_ = true;
            work_.notify_all();
        }
        for (auto& t : threads_) t.join();  // mutant: cuda_lane_join
    }

    /// Carries out a job; returns when it is done, or throws its first failure when no lane works on it any more.
    void run(staged_job& job) {
        start(job);
        if (auto const failure = await(job)) std::rethrow_exception(failure);
    }
    /// Queues a job, which must stay until it was awaited. When it throws, the job is not queued.
    void start(staged_job& job) {
        std::lock_guard const lock{mutex_};
        hire(job.cut.lanes);
        jobs_.push_back(&job);
        // The others sleep on: waking them costs more than they find.
        for (int i = 0; i < job.cut.lanes; ++i) work_.notify_one();
    }
    /// Waits until a started job is done, or no lane works on it any more after `cancel`. Its first failure; null when
    /// all is well.
    [[nodiscard]] std::exception_ptr await(staged_job& job) {
        if (job.cut.pages_ahead) make_pages_ahead(job, huge_page, make_pages);
        std::unique_lock lock{mutex_};
        done_.wait(lock, [&] { return job.working == 0 && !job.has_more(); });  // mutant: cuda_lane_team
        std::erase(jobs_, &job);
        return std::exchange(job.failure, nullptr);
    }

    [[nodiscard]] int started() const {
        std::lock_guard const lock{mutex_};
        return static_cast<int>(threads_.size());
    }
    [[nodiscard]] slot_pool const& slots() const noexcept { return pool_; }

   private:
    /// Makes sure of some lanes: fewer than wanted do as well, none does not.
    void hire(int wanted) {
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
        beside_captures const quietly;  // nothing here belongs into anybody's graph
        std::list<gear> gears;
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
                lane_link link{gear_of(gears, current), pool_, job->cut};
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
    [[nodiscard]] static gear& gear_of(std::list<gear>& gears, std::int32_t device_id) {
        for (auto& g : gears)
            if (g.device_id == device_id) return g;
        return gears.emplace_back(device_id);
    }

    int most_lanes_;
    slot_pool pool_;
    mutable std::mutex mutex_;
    std::condition_variable work_, done_;
    std::deque<staged_job*> jobs_;
    std::vector<std::thread> threads_;
    bool stopping_ = false;
};

}  // namespace ferry::inline v0::cuda::detail
