// ferry: the pinned memory that small copies pass through on their way to ordinary memory.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/choose.hpp>
#include <ferry/cuda/slots.hpp>

#include <cstddef>

namespace ferry::inline v0::cuda::detail {

/// Buffers of two sizes, so that a first small copy does not pin what only a larger one needs, and at most `most` bytes
/// of both; none when that is less than 2 MiB. Each serves one copy at a time. Thread-safe; outlives what was taken
/// from it.
class small_buffers {
   public:
    explicit small_buffers(std::size_t most) noexcept
        : most_{most}, small_{small, most / 4}, large_{bounced_to, most - most / 4} {}

    /// A buffer of at least `n` bytes, at most `bounced_to`. Its data is null when none is to be had at once: no copy
    /// waits for one.
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
    /// Bytes that are pinned.
    [[nodiscard]] std::size_t pinned() const {
        return small_.counts().first * small + large_.counts().first * bounced_to;
    }

   private:
    static constexpr std::size_t small = 64 * kib;

    std::size_t most_;
    slot_pool small_, large_;
};

}  // namespace ferry::inline v0::cuda::detail
