// ferry: pinned bounce buffers for small copies to pageable memory.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/choose.hpp>
#include <ferry/cuda/detail/memory/slots.hpp>

#include <cstddef>

namespace ferry::inline FERRY_ABI_NAMESPACE::cuda::detail {

/// Bounce buffers of two sizes, so that the first small copy does not pin a large buffer. They have at most `most`
/// bytes in total; there are none when `most` is below 2 MiB. A buffer is used by one copy at a time. Thread-safe. Must
/// outlive its buffers.
class small_buffers {
   public:
    explicit small_buffers(std::size_t most) noexcept
        : most_{most}, small_{small, most / 4}, large_{bounced_to, most - most / 4} {}

    /// Takes a buffer of at least `n` bytes; `n` is at most `bounced_to`. Its data is null when none is free: copies
    /// do not wait for a buffer.
    [[nodiscard]] slot_pool::block try_take(std::size_t n) {
        slot_pool& from = n <= small ? small_ : large_;
        if (most_ < 2 * bounced_to) return slot_pool::none();
        try {
            return from.try_take();
        } catch (error const& e) {
            if (e.code() != errc::out_of_memory) throw;
            return slot_pool::none();
        }
    }
    /// Returns the number of pinned bytes.
    [[nodiscard]] std::size_t pinned() const {
        return small_.counts().first * small + large_.counts().first * bounced_to;
    }

   private:
    static constexpr std::size_t small = 64 * kib;

    std::size_t most_;
    slot_pool small_, large_;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::cuda::detail
