// Addresses of device memory: closed to the host, which reaches the same pages elsewhere.
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

    /// 0 when there is no room.
    [[nodiscard]] std::uintptr_t take(std::size_t n);
    /// Others read 0xDD there, or no page.
    void give_back(std::uintptr_t p, std::size_t n);
    /// Where the host finds it; other addresses stay what they are.
    [[nodiscard]] std::byte* hosts(void const* p) const;

    /// The file of all of it, the ledger at its end.
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

/// An event that several processes know: how often it was recorded, and how many of these records were reached.
struct shared_event {
    std::atomic<std::uint64_t> id, recorded, reached;
};

/// What other processes may open, all zero when it is new.
struct ledger {
    static constexpr std::size_t most_events = 4096;
    shared_event events[most_events];                                    // 0: nobody's
    std::atomic<std::uint64_t> blocks[arena::bytes / arena::alignment];  // the number of what begins there; 0: nothing
};

/// Over what is freed.
void poison(std::byte* p, std::size_t n);

}  // namespace fake
