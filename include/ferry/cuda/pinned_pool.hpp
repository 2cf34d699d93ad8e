// ferry: reusable pinned memory.
#pragma once

#include <ferry/cuda/error.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/space/memory_space.hpp>

#include <bit>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace ferry::inline FERRY_ABI_NAMESPACE::cuda {

/// A memory space of pinned memory that keeps released blocks for reuse, up to a bound. Block sizes are powers of two.
/// Copies of this object refer to one pool, which exists until the last copy and the last buffer from the pool are
/// destroyed. Thread-safe.
class pinned_pool {
   public:
    /// Constructs an empty pool.
    ///
    /// \param most_kept  maximum amount of memory that stays pinned while it is not in use, in bytes
    explicit pinned_pool(std::size_t most_kept = std::size_t{64} << 20) : state_{std::make_shared<state>(most_kept)} {}

    /// Allocates memory, from the pool if it has a free block of the required size.
    ///
    /// \param bytes  size
    /// \return       pinned memory, to be passed to `deallocate` with the same size
    /// \throws error  errc::out_of_memory; errors of CUDA
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        std::size_t const size = block_size(bytes);
        {
            std::lock_guard const lock{state_->mutex};
            auto& blocks = state_->blocks;
            for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
                if (it->size != size) continue;
                void* const p = it->p;
                state_->kept -= size;
                blocks.erase(std::next(it).base());
                return p;
            }
        }
        return pinned_space{}.allocate(size);
    }
    /// Returns memory to the pool. Does not wait: work that uses the memory must be complete (R50).
    ///
    /// \param p      memory returned by `allocate`
    /// \param bytes  as passed to `allocate`
    void deallocate(void* p, std::size_t bytes, std::size_t = default_alignment) const noexcept {
        std::size_t const size = block_size(bytes);
        try {
            std::lock_guard const lock{state_->mutex};
            if (state_->kept + size <= state_->most) {
                state_->blocks.push_back({p, size});
                state_->kept += size;
                return;
            }
        } catch (...) {  // no memory for the list: the block is freed
        }
        pinned_space{}.deallocate(p, size);
    }
    /// Returns the device of the memory, cuda_host.
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda_host, 0}; }
    /// Returns the amount of memory that is pinned and not in use, in bytes.
    [[nodiscard]] std::size_t kept() const {
        std::lock_guard const lock{state_->mutex};
        return state_->kept;
    }

   private:
    static constexpr std::size_t smallest = 4096, largest = ~(~std::size_t{0} >> 1);
    /// Larger sizes are not rounded; their allocation fails.
    [[nodiscard]] static constexpr std::size_t block_size(std::size_t bytes) noexcept {
        return bytes > largest ? bytes : std::bit_ceil(bytes < smallest ? smallest : bytes);
    }
    struct block {
        void* p;
        std::size_t size;
    };
    struct state {
        explicit state(std::size_t m) noexcept : most{m} {}
        ~state() {
            for (auto const& b : blocks) pinned_space{}.deallocate(b.p, b.size);
        }
        std::mutex mutex;
        std::vector<block> blocks;
        std::size_t kept = 0;
        std::size_t most;
    };
    std::shared_ptr<state> state_;
};

}  // namespace ferry::inline FERRY_ABI_NAMESPACE::cuda
