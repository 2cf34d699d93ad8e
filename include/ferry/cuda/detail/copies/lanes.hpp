// ferry: the host threads of a copier, and the host copies that they share with the thread that waits for them.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/cuda/detail/copies/non_temporal.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace FERRY_NAMESPACE::cuda::detail {

inline void relax_processor() noexcept {
#if defined(__SSE2__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
}

/// Copies on the host, one for each chunk, in pieces that several threads take. One thread offers the copies; the other
/// members are thread-safe. A chunk uses entry `k % slots`, which must be free when it is offered.
class shared_copies {
   public:
    static constexpr std::size_t most_slots = 16;

    shared_copies(std::uint32_t slots, std::size_t chunk, std::size_t piece, bool non_temporal) noexcept
        : slots_{slots},
          pieces_{static_cast<std::uint32_t>((chunk + piece - 1) / piece)},
          piece_{piece},
          non_temporal_{non_temporal} {}

    /// Offers the next copy to all threads.
    void offer(std::byte* to, std::byte const* from, std::size_t n) noexcept {
        auto& c = copies_[offered_++ % slots_];
        c.to = to;
        c.from = from;
        c.size = n;
        c.left.store(pieces_, std::memory_order_relaxed);
        ready_.store(offered_ * pieces_, std::memory_order_release);
        ready_.notify_all();
    }
    /// Returns whether copy `k`, one of the last `slots` that were offered, is complete.
    [[nodiscard]] bool is_copied(std::uint32_t k) const noexcept {
        return k < offered_ && copies_[k % slots_].left.load(std::memory_order_acquire) == 0;
    }
    /// Copies one piece; returns false when none is available.
    bool copy_piece() noexcept {
        std::uint32_t p = next_.load(std::memory_order_relaxed);
        do {
            if (p >= ready_.load(std::memory_order_acquire)) return false;
        } while (!next_.compare_exchange_weak(p, p + 1, std::memory_order_acquire, std::memory_order_relaxed));
        auto& c = copies_[p / pieces_ % slots_];
        if (std::size_t const at = p % pieces_ * piece_; at < c.size) {
            std::size_t const n = std::min(piece_, c.size - at);
            if (non_temporal_) copy_non_temporal(c.to + at, c.from + at, n);
            else std::memcpy(c.to + at, c.from + at, n);
        }
        c.left.fetch_sub(1, std::memory_order_release);
        copied_.fetch_add(1, std::memory_order_release);
        return true;
    }
    /// Copies pieces until `close` is called.
    void help() noexcept {
        for (int idle = 0;;) {
            if (copy_piece()) {
                idle = 0;
                continue;
            }
            std::uint32_t const seen = ready_.load(std::memory_order_acquire),
                                at = next_.load(std::memory_order_relaxed);
            if (at == closed) return;
            if (at < seen) continue;
            if (++idle < spins) {
                if (idle % 32 == 0) std::this_thread::yield();
                else relax_processor();
            } else {
                ready_.wait(seen, std::memory_order_acquire);
            }
        }
    }
    /// Ends the copies, and waits for the pieces that threads have taken.
    void close() noexcept {
        std::uint32_t const taken = next_.exchange(closed);
        while (copied_.load(std::memory_order_acquire) != taken) relax_processor();
        ready_.store(closed, std::memory_order_release);
        ready_.notify_all();
    }

   private:
    static constexpr std::uint32_t closed = ~std::uint32_t{0};
    static constexpr int spins = 1000;

    struct copy {
        std::byte* to;
        std::byte const* from;
        std::size_t size;
        std::atomic<std::uint32_t> left{0};
    };
    std::uint32_t slots_, pieces_;
    std::size_t piece_;
    bool non_temporal_;
    std::uint32_t offered_ = 0;  // number of offered copies; used by the thread that offers them
    copy copies_[most_slots];
    alignas(64) std::atomic<std::uint32_t> next_{0};   // pieces taken
    alignas(64) std::atomic<std::uint32_t> ready_{0};  // pieces that may be taken
    alignas(64) std::atomic<std::uint32_t> copied_{0};
};

/// Threads that help with shared copies, first in, first out. They start when they are first needed; the destructor
/// joins them. Thread-safe.
class lane_team {
   public:
    explicit lane_team(int most_lanes) noexcept : most_lanes_{most_lanes} {}
    lane_team(lane_team const&) = delete;
    lane_team& operator=(lane_team const&) = delete;
    ~lane_team() {
        stopping_ = true;
        wake(static_cast<int>(threads_.size()));
        for (auto& t : threads_) t.join();
    }

    /// Lets up to `lanes` threads help, until `finish`. Returns false when there are no threads.
    bool start(std::shared_ptr<shared_copies> const& copies, int lanes) {
        lanes = std::min(lanes, most_lanes_);
        {
            auto const lock = locked();
            start_threads(lanes);
            if (threads_.empty()) return false;
            jobs_.push_back({copies, lanes});
        }
        wake(lanes);  // no more lanes than the job uses, because waking a lane takes time
        return true;
    }
    /// Ends the copies. No thread uses their memory afterwards.
    void finish(std::shared_ptr<shared_copies> const& copies) noexcept {
        {
            auto const lock = locked();
            std::erase_if(jobs_, [&](job const& j) { return j.copies == copies; });
        }
        copies->close();
    }

    [[nodiscard]] int started() const {
        auto const lock = locked();
        return static_cast<int>(threads_.size());
    }

   private:
    struct job {
        std::shared_ptr<shared_copies> copies;
        int lanes;  ///< threads that may still join
    };

    /// Locks without sleeping, because the lock is held briefly, and a thread that sleeps takes long to wake.
    [[nodiscard]] std::unique_lock<std::mutex> locked() const {
        std::unique_lock lock{mutex_, std::try_to_lock};
        for (int i = 1; !lock.owns_lock(); ++i) {
            if (i % 32 == 0) std::this_thread::yield();
            else relax_processor();
            static_cast<void>(lock.try_lock());
        }
        return lock;
    }
    void wake(int lanes) noexcept {
        ++wakes_;
        for (int i = 0; i < lanes; ++i) wakes_.notify_one();
    }
    void start_threads(int wanted) noexcept {
        try {
            while (static_cast<int>(threads_.size()) < wanted) threads_.emplace_back([this] { work(); });
        } catch (...) {  // those that were started suffice
        }
    }
    [[nodiscard]] std::shared_ptr<shared_copies> join_one() noexcept {
        auto const lock = locked();
        for (auto& j : jobs_)
            if (j.lanes > 0) return --j.lanes, j.copies;
        return nullptr;
    }
    void work() noexcept {
        for (;;) {
            auto const seen = wakes_.load();
            if (auto const copies = join_one()) copies->help();
            else if (stopping_) return;
            else wakes_.wait(seen);
        }
    }

    int most_lanes_;
    mutable std::mutex mutex_;
    std::atomic<std::uint32_t> wakes_{0};
    std::deque<job> jobs_;
    std::vector<std::thread> threads_;
    std::atomic<bool> stopping_ = false;
};

}  // namespace FERRY_NAMESPACE::cuda::detail
