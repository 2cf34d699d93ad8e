// ferry: one transfer between host and device, cut into chunks that lanes take from one counter.
#pragma once

#include <ferry/cuda/choose.hpp>
#include <ferry/cuda/past_caches.hpp>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

namespace ferry::inline v0::cuda::detail {

/// The most slots that a lane uses for one job.
inline constexpr int most_slots = 16;

/// A stretch of a transfer, in bytes from its begin.
struct chunk {
    std::size_t begin, size;
};

/// A transfer of one piece of memory. Shared by the lanes that work on it: `take` and `cancel` are thread-safe, the
/// part behind them belongs to whoever holds the lock of the lanes.
struct staged_job {
    std::byte* dst;
    std::byte const* src;
    std::size_t bytes;
    bool to_host;
    std::int32_t device_id;
    staging cut;

    std::atomic<std::size_t> next{0};

    int joined = 0;                ///< lanes that have ever worked on it
    int working = 0;               ///< lanes that do now
    std::exception_ptr failure{};  ///< the first

    /// The next chunk that nobody has; size 0 when there is none left.
    [[nodiscard]] chunk take() noexcept {
        std::size_t begin = next.load(std::memory_order_relaxed), size = 0;
        do {
            if (begin >= bytes) return {bytes, 0};
            size = std::min(size_at(begin), bytes - begin);
        } while (!next.compare_exchange_weak(begin, begin + size, std::memory_order_relaxed));
        return {begin, size};
    }
    /// The size of a chunk that begins there.
    [[nodiscard]] std::size_t size_at(std::size_t begin) const noexcept {
        bool const is_last = bytes - begin <= cut.chunk * static_cast<std::size_t>(cut.lanes);
        return is_last ? std::max(cut.chunk / static_cast<std::size_t>(cut.taper), std::size_t{1}) : cut.chunk;
    }
    /// Leaves nothing to take.
    void cancel() noexcept { next.store(bytes, std::memory_order_relaxed); }
    [[nodiscard]] bool has_more() const noexcept { return next.load(std::memory_order_relaxed) < bytes; }
};

/// Makes pages that lanes are about to write, one of `page` bytes after the other, until there are none left or `make`
/// fails: a chunk for each lane in front of what is taken. `make(begin, bytes)` writes nothing, so that it does not
/// matter who comes first.
template <class Make>
void make_pages_ahead(staged_job const& job, std::size_t page, Make make) noexcept {
    std::size_t const ahead = job.cut.chunk * static_cast<std::size_t>(job.cut.lanes),
                      first = (page - reinterpret_cast<std::uintptr_t>(job.dst) % page) % page;
    for (std::size_t at = first;; at += page) {
        std::size_t const taken = job.next.load(std::memory_order_relaxed);
        if (at < taken + ahead) at = first + (taken + ahead - first + page - 1) / page * page;
        if (taken >= job.bytes || at >= job.bytes || !make(job.dst + at, std::min(page, job.bytes - at))) return;
    }
}

/// What a lane has: slots of pinned memory and a way to start a copy between one of them and the device, which later
/// tells when it is done. Not required: that it is CUDA.
template <class L>
concept link = requires(L& l, L const& c, int slot, void* to, void const* from, std::size_t n) {
    { c.slots() } -> std::same_as<int>;
    { c.slot(slot) } -> std::same_as<std::byte*>;
    l.start(slot, to, from, n);  // queues the copy and marks the slot
    l.wait(slot);                // until the copy of this slot has run
    l.drain();                   // until all copies have run; noexcept
};

inline void move_bytes(void* dst, void const* src, std::size_t n, bool past_caches) noexcept {
    if (past_caches) copy_past_caches(dst, src, n);
    else std::memcpy(dst, src, n);
}

/// Device → host: while one slot is copied out, the others travel.
template <link Link>
void run_down(staged_job& job, Link& lane) {
    int const slots = lane.slots();
    chunk under_way[most_slots];
    std::size_t started = 0, done = 0;
    for (;;) {
        while (started - done < static_cast<std::size_t>(slots)) {
            chunk const c = job.take();
            if (c.size == 0) break;
            int const slot = static_cast<int>(started % static_cast<std::size_t>(slots));
            under_way[slot] = c;
            lane.start(slot, lane.slot(slot), job.src + c.begin, c.size);
            ++started;
        }
        if (started == done) return;
        int const slot = static_cast<int>(done % static_cast<std::size_t>(slots));
        lane.wait(slot);  // mutant: cuda_staged_down
        move_bytes(job.dst + under_way[slot].begin, lane.slot(slot), under_way[slot].size, job.cut.past_caches);
        ++done;
    }
}

/// Host → device: while one slot is filled, the others travel.
template <link Link>
void run_up(staged_job& job, Link& lane) {
    auto const slots = static_cast<std::size_t>(lane.slots());
    std::size_t started = 0;
    for (;; ++started) {
        chunk const c = job.take();
        if (c.size == 0) break;
        int const slot = static_cast<int>(started % slots);
        if (started >= slots) lane.wait(slot);  // mutant: cuda_staged_up
        move_bytes(lane.slot(slot), job.src + c.begin, c.size, job.cut.past_caches);
        lane.start(slot, job.dst + c.begin, lane.slot(slot), c.size);
    }
    for (std::size_t i = started > slots ? started - slots : 0; i < started; ++i)  // mutant: cuda_staged_end
        lane.wait(static_cast<int>(i % slots));
}

/// A lane's part of a job; nothing of it is under way any more when it returns or throws. A failure leaves nothing to
/// do for the other lanes.
template <link Link>
void run(staged_job& job, Link& lane) {
    try {
        if (job.to_host) run_down(job, lane);
        else run_up(job, lane);
    } catch (...) {
        job.cancel();
        lane.drain();  // mutant: cuda_staged_failed
        throw;
    }
}

}  // namespace ferry::inline v0::cuda::detail
