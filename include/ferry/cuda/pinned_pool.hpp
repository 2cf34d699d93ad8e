// ferry: reusable pinned memory.
#pragma once

#include <ferry/cuda/detail/memory/pinned_blocks.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/space/memory_space.hpp>

#include <bit>
#include <cstddef>
#include <memory>

namespace FERRY_NAMESPACE::cuda {

/// A memory space of pinned memory that keeps released blocks for reuse, up to a bound. Block sizes are powers of two.
/// Copies of this object refer to one pool, which exists until the last copy and the last buffer from the pool are
/// destroyed. Thread-safe.
class pinned_pool {
   public:
    /// Constructs an empty pool.
    ///
    /// \param most_kept  maximum amount of memory that stays pinned while it is not in use, in bytes
    explicit pinned_pool(std::size_t most_kept = std::size_t{64} << 20)
        : blocks_{std::make_shared<detail::pinned_blocks>(most_kept)} {}

    /// Allocates memory, from the pool if it has a free block of the required size.
    ///
    /// \param bytes  size
    /// \return       pinned memory, to be passed to `deallocate` with the same size
    /// \throws error           errc::out_of_memory; errors of CUDA
    /// \throws std::bad_alloc  when host memory cannot be allocated
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        if (bytes > largest) return pinned_space{}.allocate(bytes);  // fails
        return blocks_->acquire(block_size(bytes), true);
    }
    /// Returns memory to the pool. Does not wait: work that uses the memory must be complete (R50).
    ///
    /// \param p      memory returned by `allocate`
    /// \param bytes  as passed to `allocate`
    void deallocate(void* p, std::size_t bytes, std::size_t = default_alignment) const noexcept {
        blocks_->release(static_cast<std::byte*>(p), block_size(bytes));
    }
    /// Returns the device of the memory, cuda_host.
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda_host, 0}; }
    /// Returns the amount of memory that is pinned and not in use, in bytes.
    [[nodiscard]] std::size_t kept() const { return blocks_->bytes().second; }

   private:
    static constexpr std::size_t smallest = 4096, largest = ~(~std::size_t{0} >> 1);
    [[nodiscard]] static constexpr std::size_t block_size(std::size_t bytes) noexcept {
        return std::bit_ceil(bytes < smallest ? smallest : bytes);
    }
    std::shared_ptr<detail::pinned_blocks> blocks_;
};

}  // namespace FERRY_NAMESPACE::cuda
