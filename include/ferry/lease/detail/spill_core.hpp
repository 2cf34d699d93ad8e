// ferry: the allocations of a spill_manager, and how they move between a device and the host.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/result.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/config.hpp>
#include <ferry/lease/detail/lease_state.hpp>
#include <ferry/lease/detail/marks.hpp>
#include <ferry/lease/options.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/view.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>  // handles and leases share the core
#include <mutex>   // deleters run on any thread
#include <new>
#include <source_location>
#include <span>
#include <string>  // the table of leases
#include <utility>
#include <vector>  // extents and strides

namespace FERRY_NAMESPACE::detail {

/// Identifies the calling thread.
[[nodiscard]] inline void const* this_thread() noexcept {
    static thread_local char const place = 0;
    return &place;
}

/// A node of a list that does not allocate.
struct lease_link {
    lease_link *previous = this, *next = this;

    void unlink() noexcept {
        previous->next = next;
        next->previous = previous;
        previous = next = this;
    }
    void append(lease_link& node) noexcept {
        node.unlink();
        node.previous = previous;
        node.next = this;
        previous->next = &node;
        previous = &node;
    }
};

struct allocation;

/// The allocations of a column whose memory one owner releases. The memory is freed when none of them uses it any more.
struct lease_source {
    std::weak_ptr<void const> owner;
    std::vector<allocation*> parts{};  ///< the allocations that have handles
    long users = 0;                    ///< number of allocations that use the memory
    std::size_t gone = 0;              ///< size in bytes of the allocations that do not use it any more

    /// Returns whether the program has kept the column, or a part of it, so that the memory cannot be freed.
    [[nodiscard]] bool is_kept() const noexcept { return owner.use_count() > users; }
};

/// One allocation. The lock of the core guards it. While the memory moves, only the caller that moves it uses it.
struct allocation : lease_link {
    lease_state state;
    std::size_t bytes = 0;
    std::uint64_t below = 0;  ///< bytes from the lowest address, `base`, to the first element
    std::byte* base = nullptr;
    managed_tensor original{};               ///< the memory until the first spill
    std::shared_ptr<lease_source> source{};  ///< the source of that memory, if it belongs to a column
    any_owner memory{}, host{};
    device host_device = cpu;
    lease_marks marks{};               // after the memory, because the destructor waits before the memory is freed
    tensor_view layout{};              ///< without an address; refers to `original`, after a spill to `dims`
    std::vector<std::int64_t> dims{};  ///< extents, then strides
    stream_token writer{};             ///< stream of the last lease for writing
    std::source_location where{};      ///< where the oldest live lease began

    [[nodiscard]] bool is_read_only() const noexcept { return has(layout.flags(), flags::read_only); }
    /// Returns the view of the elements in memory that begins at `begin`.
    [[nodiscard]] tensor_view view(std::byte* begin, device d, flags with) const noexcept {
        void* const first = begin != nullptr ? begin + below : nullptr;
        return {first, layout.dtype(), layout.shape(), layout.strides(), d, with};
    }
    /// Copies the extents and strides from `original`, which is about to be released.
    void keep_layout() {
        auto const rank = layout.rank();
        auto const strides = layout.strides();
        dims.assign(layout.shape().data(), layout.shape().data() + rank);
        if (!strides.is_implicit()) dims.insert(dims.end(), strides.data(), strides.data() + rank);
        layout = tensor_view{static_cast<void*>(nullptr),
                             layout.dtype(),
                             {dims.data(), rank},
                             strides.is_implicit() ? strides : strides_view{dims.data() + rank, rank},
                             layout.device(),
                             layout.flags()};
    }
};

/// The streams of a lease, and whether it writes.
struct lease_use {
    stream_token on;
    bool writes = false;
    void const* thread = nullptr;  ///< thread that began the lease; `on` may be its per-thread default stream
    std::vector<stream_token> others{};
};

/// The back end, the spaces and the allocations of a spill_manager, which its handles and leases share. Thread-safe;
/// the lock is not held during an allocation, a copy, a wait or a call of the back end.
class spill_core {
   public:
    template <back_end B, memory_space S>
    spill_core(B& b, S space, spill_options const& options) : options_{options}, device_{space.device()} {
        if (!destination_.store(held_mark<destination<S, B>>{destination<S, B>{std::move(space), b}}))
            throw std::bad_alloc{};
        on_device_ = back_end_ref{*static_cast<destination<S, B>*>(destination_.data())};
        back_end_ = back_end_ref{b};
        back_end_object_ = const_cast<void*>(static_cast<void const*>(&b));
        marks_ = &marks_of<B>::table;
    }
    spill_core(spill_core const&) = delete;
    spill_core& operator=(spill_core const&) = delete;
    FERRY_INLINE ~spill_core();

    [[nodiscard]] ferry::device device() const noexcept { return device_; }

    /// Takes over a tensor that is ready on `on`; unchanged on failure.
    [[nodiscard]] FERRY_INLINE result<allocation*> adopt(managed_tensor& tensor, stream_token on, std::size_t reserved,
                                                         record to);
    /// Returns the allocation with these bytes of a column that `owner` owns, and adds a handle; null if there is none.
    [[nodiscard]] FERRY_INLINE allocation* find(std::shared_ptr<void const> const& owner, std::byte const* begin,
                                                std::size_t bytes) noexcept;
    /// Takes over allocations that `describe` made. `owner` is the owner of their column, if there is one. If it throws
    /// std::bad_alloc, nothing has changed.
    FERRY_INLINE void admit(std::span<std::unique_ptr<allocation>> made, std::size_t reserved,
                            std::shared_ptr<void const> const& owner = nullptr);
    /// Moves a tensor that is ready on `on` into a new allocation; unchanged on failure.
    [[nodiscard]] FERRY_INLINE result<std::unique_ptr<allocation>> describe(managed_tensor& tensor, stream_token on,
                                                                            record to);
    [[nodiscard]] back_end_ref back_end() const noexcept { return back_end_; }
    /// Allocates memory like that of `a`, and copies it there on `on`. The caller has a lease of `a`.
    [[nodiscard]] FERRY_INLINE result<allocation*> duplicate(allocation const& a, stream_token on);
    [[nodiscard]] FERRY_INLINE result<> begin(allocation& a, stream_token on, bool writes, record to);
    FERRY_INLINE void end(allocation& a, lease_use const& use) noexcept;
    void hold(allocation& a) noexcept {
        lock const held{mutex_};
        ++a.state.handles;
    }
    FERRY_INLINE void drop(allocation& a) noexcept;
    /// Returns whether one handle and no lease for reading refers to an allocation, which may then be written.
    [[nodiscard]] bool is_alone(allocation const& a) const noexcept {
        lock const held{mutex_};
        return a.state.handles == 1 && a.state.readers == 0 && !a.is_read_only();
    }
    /// Returns whether a lease for writing is live, and on which stream the last one began.
    [[nodiscard]] bool is_written(allocation const& a, stream_token& on) const noexcept {
        lock const held{mutex_};
        on = a.writer;
        return a.state.writers != 0;
    }

    [[nodiscard]] FERRY_INLINE result<> reserve(std::size_t bytes) noexcept;
    void unreserve(std::size_t bytes) noexcept {
        lock const held{mutex_};
        reserved_ -= bytes;
        changed_.notify_all();
    }
    /// Frees memory until it has freed `bytes` bytes and the limit holds, or no more can be freed.
    std::size_t free_up(std::size_t bytes) noexcept {
        lock held{mutex_};
        return free_up(bytes, held);
    }
    /// Waits for memory that another thread frees, or frees at least `bytes` bytes if possible. Returns false if no
    /// memory was freed. `seen` is the result of `freed` before the allocation failed.
    [[nodiscard]] FERRY_INLINE bool make_room(std::size_t bytes, std::uint64_t seen) noexcept;
    [[nodiscard]] std::uint64_t freed() const noexcept { return statistics().freed_bytes; }
    [[nodiscard]] spill_statistics statistics() const noexcept {
        lock const held{mutex_};
        auto now = totals_;
        now.resident_bytes = resident_;
        return now;
    }
    [[nodiscard]] FERRY_INLINE std::string live_leases() const;
    /// Ends all use of the back end.
    FERRY_INLINE void close() noexcept;

   private:
    using lock = std::unique_lock<std::mutex>;

    FERRY_INLINE std::size_t free_up(std::size_t bytes, lock& held) noexcept;
    /// Removes a spilled or dropped allocation from its source. \return  number of bytes of device memory that are free
    /// now
    FERRY_INLINE std::size_t leave(std::shared_ptr<lease_source> const& source, allocation const* a,
                                   std::size_t bytes) noexcept;
    /// Puts an allocation into the list of its state.
    FERRY_INLINE void settle(allocation& a) noexcept;
    /// Removes an allocation to which nothing refers. Its memory is freed at once if its marks are done, otherwise when
    /// a later call finds them done or needs the memory.
    FERRY_INLINE void release_if_dropped(allocation& a, lock& held) noexcept;
    /// Frees the dropped allocations whose work has completed, oldest first, until it finds another one.
    void collect(lock& held) noexcept {
        std::size_t freed = 0;
        while (dropped_.next != &dropped_ && free_dropped(held, false, freed)) {
        }
    }
    /// Frees the oldest dropped allocation, and adds the bytes of device memory to `freed`. If `waits` is false and the
    /// work on the allocation is incomplete, returns false instead.
    FERRY_INLINE bool free_dropped(lock& held, bool waits, std::size_t& freed) noexcept;
    /// Frees dropped allocations, or spills the least recently used one. Returns the number of bytes freed; 0 if there
    /// is none, or if the spill failed, with its error in `failure`.
    FERRY_INLINE std::size_t free_one(lock& held, result<>& failure) noexcept;
    /// Allocates device memory; makes room if necessary.
    [[nodiscard]] FERRY_INLINE result<any_owner> allocate(std::size_t bytes, stream_token on) noexcept;
    /// Copies an allocation to host memory of the device `a.host_device`, after its marks are done.
    [[nodiscard]] FERRY_INLINE result<any_owner> spill(allocation& a) noexcept;
    /// Copies a spilled allocation to new memory, which stays reserved on success.
    [[nodiscard]] FERRY_INLINE result<any_owner> bring_back(allocation& a) noexcept;
    [[nodiscard]] FERRY_INLINE result<any_owner> mark(stream_token on) noexcept;
    [[nodiscard]] FERRY_INLINE result<> copy(void* dst, ferry::device to, void const* src, ferry::device from,
                                             std::size_t bytes, stream_token on, bool waits);

    spill_options options_;
    ferry::device device_;
    back_end_ref back_end_, on_device_;
    void* back_end_object_ = nullptr;
    mark_operations const* marks_ = nullptr;
    any_owner destination_;
    std::mutex mutable mutex_;
    std::condition_variable changed_;
    std::map<std::weak_ptr<void const>, std::shared_ptr<lease_source>, std::owner_less<>> sources_{};
    lease_link idle_, leased_, dropped_, quarantined_;  // idle: least recently used first
    std::size_t resident_ = 0, reserved_ = 0, pinned_ = 0;
    int moving_ = 0, calls_ = 0;  // numbers of allocations being freed or spilled, and of other calls in progress
    bool is_closed_ = false;
    spill_statistics totals_{};
};

}  // namespace FERRY_NAMESPACE::detail

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/lease/detail/spill_core.ipp>
#endif
