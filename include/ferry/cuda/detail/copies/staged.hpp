// ferry: a transfer between host and device in chunks, which lanes take from a shared counter.
#pragma once

#include <ferry/cuda/choose.hpp>
#include <ferry/cuda/detail/copies/non_temporal.hpp>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

namespace FERRY_NAMESPACE::cuda::detail {

/// Maximum number of slots that a lane uses for a job.
inline constexpr int most_slots = 16;

/// A part of a transfer, in bytes.
struct chunk {
    std::size_t begin, size;
};

/// A transfer of one contiguous block, shared by the lanes that work on it. `take` and `cancel` are thread-safe; the
/// members after `next` require the lock of the lanes.
struct staged_job {
    std::byte* dst;
    std::byte const* src;
    std::size_t bytes;
    bool to_host;
    std::int32_t device_id;
    staging cut;

    std::atomic<std::size_t> next{0};

    int joined = 0;                ///< lanes that have worked on it so far
    int working = 0;               ///< lanes that are working on it now
    std::exception_ptr failure{};  ///< the first error

    /// Takes the next chunk; size 0 when there is none left.
    [[nodiscard]] chunk take() noexcept {
        std::size_t begin = next.load(std::memory_order_relaxed), size = 0;
        do {
            if (begin >= bytes) return {bytes, 0};
            size = std::min(size_at(begin), bytes - begin);
        } while (!next.compare_exchange_weak(begin, begin + size, std::memory_order_relaxed));
        return {begin, size};
    }
    /// Returns the size of the chunk at an offset.
    [[nodiscard]] std::size_t size_at(std::size_t begin) const noexcept {
        bool const is_last = bytes - begin <= cut.chunk * static_cast<std::size_t>(cut.lanes);
        return is_last ? std::max(cut.chunk / static_cast<std::size_t>(cut.taper), std::size_t{1}) : cut.chunk;
    }
    /// Ends the job after the chunks that have been taken.
    void cancel() noexcept { next.store(bytes, std::memory_order_relaxed); }
    [[nodiscard]] bool has_more() const noexcept { return next.load(std::memory_order_relaxed) < bytes; }
};

/// Populates the pages that lanes will write next, `page` bytes at a time, until none are left or `make` fails. Stays
/// at least one chunk for each lane ahead of the chunks taken. `make(begin, bytes)` must not change the contents of a
/// page, because a lane may have written it already.
template <class Make>
void populate_pages_ahead(staged_job const& job, std::size_t page, Make make) noexcept {
    std::size_t const ahead = job.cut.chunk * static_cast<std::size_t>(job.cut.lanes),
                      first = (page - reinterpret_cast<std::uintptr_t>(job.dst) % page) % page;
    for (std::size_t at = first;; at += page) {
        std::size_t const taken = job.next.load(std::memory_order_relaxed);
        if (at < taken + ahead) at = first + (taken + ahead - first + page - 1) / page * page;
        if (taken >= job.bytes || at >= job.bytes || !make(job.dst + at, std::min(page, job.bytes - at))) return;
    }
}

/// A lane's pinned slots, with asynchronous copies between a slot and the device. A link need not use CUDA.
template <class L>
concept link = requires(L& l, L const& c, int slot, void* to, void const* from, std::size_t n) {
    { c.slots() } -> std::same_as<int>;
    { c.slot(slot) } -> std::same_as<std::byte*>;
    l.start(slot, to, from, n);  // queues the copy and records the slot's event
    l.wait(slot);                // waits for the copy of this slot
    l.drain();                   // waits for all copies; noexcept
};

inline void move_bytes(void* dst, void const* src, std::size_t n, bool non_temporal) noexcept {
    if (non_temporal) copy_non_temporal(dst, src, n);
    else std::memcpy(dst, src, n);
}

/// Runs a lane's part of a transfer to the host: one slot is copied out while the others are transferred.
template <link Link>
void run_to_host(staged_job& job, Link& lane) {
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
        lane.wait(slot);
        move_bytes(job.dst + under_way[slot].begin, lane.slot(slot), under_way[slot].size, job.cut.non_temporal);
        ++done;
    }
}

/// Runs a lane's part of a transfer to a device: one slot is filled while the others are transferred.
template <link Link>
void run_to_device(staged_job& job, Link& lane) {
    auto const slots = static_cast<std::size_t>(lane.slots());
    std::size_t started = 0;
    for (;; ++started) {
        chunk const c = job.take();
        if (c.size == 0) break;
        int const slot = static_cast<int>(started % slots);
        if (started >= slots) lane.wait(slot);
        move_bytes(lane.slot(slot), job.src + c.begin, c.size, job.cut.non_temporal);
        lane.start(slot, job.dst + c.begin, lane.slot(slot), c.size);
    }
    for (std::size_t i = started > slots ? started - slots : 0; i < started; ++i)
        lane.wait(static_cast<int>(i % slots));
}

/// Runs a lane's part of a job. None of its copies is in progress when it returns or throws. An error cancels the job
/// for the other lanes.
template <link Link>
void run(staged_job& job, Link& lane) {
    try {
        if (job.to_host) run_to_host(job, lane);
        else run_to_device(job, lane);
    } catch (...) {
        job.cancel();
        lane.drain();
        throw;
    }
}

}  // namespace FERRY_NAMESPACE::cuda::detail
