// ferry: memory allocated by a copier.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/huge_pages.hpp>
#include <ferry/cuda/memory.hpp>
#include <ferry/cuda/recycled.hpp>
#include <ferry/space/buffer.hpp>

#include <cstddef>
#include <utility>
#include <variant>

namespace FERRY_NAMESPACE::cuda {

/// Memory that a copier allocated: host or pinned memory of the copier's pools, or `memory` for other kinds.
///
/// The destructor releases the memory, on any thread, and may run after the copier has been destroyed. Host and
/// pinned memory can be reused immediately, so work that uses it must be complete when the destructor runs (R50).
/// Move-only.
class copier_memory {
   public:
    /// Allocates memory.
    ///
    /// \param dev     device of the memory
    /// \param bytes   size
    /// \param on      stream on which device memory is first used; see `memory`
    /// \param pinned  pool for pinned memory
    /// \param host    pool for host memory
    /// \throws error           errc::out_of_memory, device, stream, capturing; errors of CUDA
    /// \throws std::bad_alloc  when host memory cannot be allocated
    copier_memory(ferry::device dev, std::size_t bytes, stream_token on, pinned_pool const& pinned,
                  recycled<fresh_host_space> const& host)
        : owner_{make(dev, bytes, on, pinned, host)} {}

    /// Returns the address of the memory; null for 0 bytes.
    [[nodiscard]] void* data() const noexcept {
        return std::visit([](auto const& owner) { return owner.data(); }, owner_);
    }
    /// Returns the size in bytes.
    [[nodiscard]] std::size_t size() const noexcept {
        return std::visit([](auto const& owner) { return owner.size(); }, owner_);
    }

   private:
    using any = std::variant<memory, buffer<recycled<fresh_host_space>>, buffer<pinned_pool>>;

    [[nodiscard]] static any make(ferry::device dev, std::size_t bytes, stream_token on, pinned_pool const& pinned,
                                  recycled<fresh_host_space> const& host) {
        if (dev.type == device_type::cpu) return buffer<recycled<fresh_host_space>>{bytes, host};
        if (dev.type == device_type::cuda_host) return buffer<pinned_pool>{bytes, pinned};
        return memory{dev, bytes, on};
    }

    any owner_;
};

}  // namespace FERRY_NAMESPACE::cuda
