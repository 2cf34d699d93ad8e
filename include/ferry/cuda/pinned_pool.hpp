// ferry: page-locked memory that is used again.
#pragma once

#include <ferry/cuda/error.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/space/memory_space.hpp>

#include <bit>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace ferry::inline v0::cuda {

/// Pinned memory in blocks of powers of two, kept when it is given back, up to a bound. A space of its own: copies of
/// it are handles to one pool, which lives as long as any of them or their memory. Thread-safe.
class pinned_pool {
   public:
    /// \param most_kept  bytes that stay pinned while nobody uses them
    explicit pinned_pool(std::size_t most_kept = std::size_t{64} << 20) : shelf_{std::make_shared<shelf>(most_kept)} {}

    /// \throws error  errc::out_of_memory, no_driver
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t = default_alignment) const {
        std::size_t const size = block_size(bytes);
        {
            std::lock_guard const lock{shelf_->mutex};
            auto& blocks = shelf_->blocks;
            for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
                if (it->size != size) continue;
                void* const p = it->p;
                shelf_->kept -= size;
                blocks.erase(std::next(it).base());
                return p;
            }
        }
        return pinned_space{}.allocate(size);
    }
    void deallocate(void* p, std::size_t bytes, std::size_t = default_alignment) const noexcept {
        std::size_t const size = block_size(bytes);
        try {
            std::lock_guard const lock{shelf_->mutex};
            if (shelf_->kept + size <= shelf_->most) {
                shelf_->blocks.push_back({p, size});
                shelf_->kept += size;
                return;
            }
        } catch (...) {  // no memory to remember it: it goes back
        }
        pinned_space{}.deallocate(p, size);
    }
    [[nodiscard]] constexpr ferry::device device() const noexcept { return {device_type::cuda_host, 0}; }
    /// Bytes pinned and unused.
    [[nodiscard]] std::size_t kept() const {
        std::lock_guard const lock{shelf_->mutex};
        return shelf_->kept;
    }

   private:
    static constexpr std::size_t smallest = 4096, largest = ~(~std::size_t{0} >> 1);
    /// Beyond the last power of two there is no memory anyway.
    [[nodiscard]] static constexpr std::size_t block_size(std::size_t bytes) noexcept {
        return bytes > largest ? bytes : std::bit_ceil(bytes < smallest ? smallest : bytes);
    }
    struct block {
        void* p;
        std::size_t size;
    };
    struct shelf {
        explicit shelf(std::size_t m) noexcept : most{m} {}
        ~shelf() {
            for (auto const& b : blocks) pinned_space{}.deallocate(b.p, b.size);
        }
        std::mutex mutex;
        std::vector<block> blocks;
        std::size_t kept = 0;
        std::size_t most;
    };
    std::shared_ptr<shelf> shelf_;
};

}  // namespace ferry::inline v0::cuda
