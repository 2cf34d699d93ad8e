// Address ranges of device memory: inaccessible to the host, which has a second mapping of the same pages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

namespace fake {

struct ledger;

/// Guarded by the mutex of `everything`, but for `hosts`.
class arena {
   public:
    static constexpr std::size_t bytes = std::size_t{32} << 30;  // of addresses; pages come when they are touched
    static constexpr std::size_t alignment = 512;

    /// Returns 0 when there is no room.
    [[nodiscard]] std::uintptr_t take(std::size_t n);
    /// Unallocated memory reads as 0xDD, or has no page.
    void give_back(std::uintptr_t p, std::size_t n);
    /// The host's address of device memory; other addresses are returned unchanged.
    [[nodiscard]] std::byte* hosts(void const* p) const;

    /// The file behind all pages; the ledger is at its end.
    [[nodiscard]] int file() const noexcept { return file_; }
    [[nodiscard]] ledger& book() const noexcept { return *book_; }
    [[nodiscard]] std::size_t offset_of(std::uintptr_t p) const {
        return p - reinterpret_cast<std::uintptr_t>(closed_);
    }

    [[nodiscard]] static arena& one();

   private:
    arena();
    int file_ = -1;
    std::byte* closed_ = nullptr;
    std::byte* open_ = nullptr;
    ledger* book_ = nullptr;
    std::map<std::uintptr_t, std::size_t> free_;
};

/// An interprocess event: the number of its records, and of those that have been reached.
struct shared_event {
    std::atomic<std::uint64_t> id, recorded, reached;
};

/// What other processes can open; all zero when it is new.
struct ledger {
    static constexpr std::size_t most_events = 4096;
    shared_event events[most_events];                                    // 0: unused
    std::atomic<std::uint64_t> blocks[arena::bytes / arena::alignment];  // the number of what begins there; 0: nothing
};

/// Written over freed memory.
void poison(std::byte* p, std::size_t n);

}  // namespace fake
