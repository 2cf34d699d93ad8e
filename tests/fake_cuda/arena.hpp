// Addresses of device memory: closed to the host, which reaches the same pages elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace fake {

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

    [[nodiscard]] static arena& one();

   private:
    arena();
    std::byte* closed_ = nullptr;
    std::byte* open_ = nullptr;
    std::map<std::uintptr_t, std::size_t> free_;
};

/// Over what is freed.
void poison(std::byte* p, std::size_t n);

}  // namespace fake
