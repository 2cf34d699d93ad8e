// ferry: memory that is kept for reuse after its release.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/space/memory_space.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

namespace FERRY_NAMESPACE::cuda {

/// A memory space that keeps released blocks of a stateless space for reuse, up to a bound; the block that was released
/// first is dropped first. Block sizes have four steps for each power of two. Copies of this object refer to one pool,
/// which exists until the last copy and the last buffer from the pool are destroyed. Thread-safe.
template <memory_space Space>
class recycled {
    struct block {
        std::byte* p = nullptr;
        std::size_t size = 0;
    };
    struct state {
        std::mutex mutex;
        std::vector<block> free;  ///< oldest first
        std::size_t most, least, kept = 0, made = 0, count = 0;

        state(std::size_t m, std::size_t l) noexcept : most{m}, least{l} {}
        ~state() { close(); }

        /// Takes the smallest, most recently released block of `low` to `high` bytes.
        [[nodiscard]] block take(std::size_t low, std::size_t high) {
            std::lock_guard const lock{mutex};
            auto best = free.rend();
            for (auto it = free.rbegin(); it != free.rend() && (best == free.rend() || best->size != low); ++it)
                if (it->size >= low && it->size <= high && (best == free.rend() || it->size < best->size)) best = it;
            if (best == free.rend()) return {};
            block const found = *best;
            free.erase(std::prev(best.base()));
            kept -= found.size;
            return found;
        }
        /// Allocates a block. With `is_bounded`, returns null if the blocks would then exceed the bound.
        [[nodiscard]] std::byte* make(std::size_t size, bool is_bounded) {
            {
                std::lock_guard const lock{mutex};
                if (is_bounded && (size > most || made > most - size)) return nullptr;
                free.reserve(std::bit_ceil(count + 1));  // so that `keep` does not throw
                ++count;
                made += size;
            }
            try {
                return static_cast<std::byte*>(Space{}.allocate(size));
            } catch (...) {
                std::lock_guard const lock{mutex};
                --count;
                made -= size;
                throw;
            }
        }
        /// Keeps a block, unless it alone exceeds the bound, and drops others.
        void keep(block b) noexcept {
            std::unique_lock lock{mutex};
            if (b.size > most) return drop(lock, b);
            free.push_back(b);  // reserved
            kept += b.size;
            drop_excess(lock);
        }
        void close() noexcept {
            std::unique_lock lock{mutex};
            most = 0;
            drop_excess(lock);
        }
        void drop_excess(std::unique_lock<std::mutex>& lock) noexcept {
            while (kept > most) {
                block const oldest = free.front();
                free.erase(free.begin());
                kept -= oldest.size;
                drop(lock, oldest);
            }
        }
        /// Deallocates without the lock, because it may synchronise, and until then counts the block.
        void drop(std::unique_lock<std::mutex>& lock, block b) noexcept {
            lock.unlock();
            Space{}.deallocate(b.p, b.size);
            lock.lock();
            --count;
            made -= b.size;
        }
    };
    struct give_back {
        state* to = nullptr;
        std::size_t size = 0;
        void operator()(std::byte* p) const noexcept { to->keep({p, size}); }
    };

   public:
    /// Constructs an empty pool.
    ///
    /// \param most_kept  maximum amount of memory that is kept while it is not in use, in bytes
    /// \param least      smallest size that is kept, in bytes
    explicit recycled(std::size_t most_kept = std::size_t{64} << 20, std::size_t least = 0)
        : state_{std::make_shared<state>(most_kept, least)} {}

    /// Allocates memory, from the pool if it has a free block of the required size.
    ///
    /// \param bytes      size
    /// \param alignment  a power of two; memory with an alignment above the default is not kept
    /// \return           memory, to be passed to `deallocate` with the same size and alignment
    /// \throws error           errc::out_of_memory; other errors of the space
    /// \throws std::bad_alloc  when host memory cannot be allocated
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) const {
        if (!is_kept(bytes, alignment)) return Space{}.allocate(bytes, alignment);
        std::size_t const size = block_size(bytes);
        if (void* const p = state_->take(size, size).p) return p;
        return state_->make(size, false);
    }
    /// Returns memory to the pool. Does not wait, so work that uses the memory must be complete (R50).
    ///
    /// \param p          memory returned by `allocate`
    /// \param bytes      as passed to `allocate`
    /// \param alignment  as passed to `allocate`
    void deallocate(void* p, std::size_t bytes, std::size_t alignment = default_alignment) const noexcept {
        if (!is_kept(bytes, alignment)) return Space{}.deallocate(p, bytes, alignment);
        state_->keep({static_cast<std::byte*>(p), block_size(bytes)});
    }
    /// Returns the device of the memory.
    [[nodiscard]] constexpr ferry::device device() const noexcept { return Space{}.device(); }
    /// Returns whether a tensor lies in memory of the kind that the pool allocates.
    ///
    /// \param v  tensor with elements
    /// \throws   exceptions of the space
    [[nodiscard]] bool contains(tensor_view const& v) const
        requires containing_space<Space>
    {
        return Space{}.contains(v);
    }
    /// Returns the amount of memory that is kept and not in use, in bytes.
    [[nodiscard]] std::size_t kept() const {
        std::lock_guard const lock{state_->mutex};
        return state_->kept;
    }
    /// Returns the size of all blocks of the pool, in use or not, in bytes.
    [[nodiscard]] std::size_t size() const {
        std::lock_guard const lock{state_->mutex};
        return state_->made;
    }
    /// Releases the memory that is not in use, and keeps no more.
    void close() const noexcept { state_->close(); }

    /// A block that `lend` took; its destructor returns it to the pool, which must still exist.
    using loan = std::unique_ptr<std::byte, give_back>;
    /// Takes a block of at least `bytes`, or of a smaller power of two down to `least` bytes. The blocks of the pool,
    /// in use or not, never exceed its bound. Does not wait.
    ///
    /// \param bytes  size
    /// \param least  smallest size
    /// \return       block; null when there is none
    /// \throws error           errors of the space except errc::out_of_memory
    /// \throws std::bad_alloc  when host memory cannot be allocated
    [[nodiscard]] loan lend(std::size_t bytes, std::size_t least) const {
        for (auto n = std::bit_ceil(bytes); n >= least; n /= 2) {
            if (auto const b = state_->take(n, ~std::size_t{0}); b.p != nullptr) return {b.p, {state_.get(), b.size}};
            try {
                if (auto* const p = state_->make(n, true)) return {p, {state_.get(), n}};
            } catch (error const& e) {
                if (e.code() != errc::out_of_memory) throw;
            }
        }
        return {};
    }

   private:
    static constexpr std::size_t smallest = 4096, largest = ~std::size_t{0} / 2;
    /// Larger sizes are not rounded; their allocation fails.
    [[nodiscard]] static constexpr std::size_t block_size(std::size_t bytes) noexcept {
        if (bytes <= smallest || bytes > largest) return std::max(bytes, smallest);
        std::size_t const step = std::bit_floor(bytes - 1) / 4;
        return (bytes + step - 1) / step * step;
    }
    [[nodiscard]] bool is_kept(std::size_t bytes, std::size_t alignment) const noexcept {
        return bytes >= state_->least && alignment <= default_alignment;
    }

    std::shared_ptr<state> state_;
};

/// A memory space of pinned memory that keeps released blocks for reuse, up to a bound.
using pinned_pool = recycled<pinned_space>;

}  // namespace FERRY_NAMESPACE::cuda
