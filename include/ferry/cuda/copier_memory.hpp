// ferry: the memory that a copier hands out.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/huge_pages.hpp>
#include <ferry/cuda/memory.hpp>
#include <ferry/cuda/pinned_pool.hpp>
#include <ferry/space/buffer.hpp>

#include <cstddef>
#include <utility>
#include <variant>

namespace ferry::inline v0::cuda {

/// Ordinary memory in huge pages, pinned memory of a pool, or what `memory` has of the other kinds; released when it
/// dies, on any thread, before or after the copier that gave it. Pinned memory is lent again at once: work that uses it
/// must be done by then (R50). Move-only.
class copier_memory {
   public:
    /// \throws error  errc::out_of_memory, device, no_driver;  std::bad_alloc
    copier_memory(ferry::device where, std::size_t bytes, stream_token on, pinned_pool const& pinned)
        : owner_{make(where, bytes, on, pinned)} {}

    [[nodiscard]] void* data() const noexcept {
        return std::visit([](auto const& owner) { return owner.data(); }, owner_);
    }
    [[nodiscard]] std::size_t size() const noexcept {
        return std::visit([](auto const& owner) { return owner.size(); }, owner_);
    }

   private:
    using any = std::variant<memory, buffer<fresh_host_space>, buffer<pinned_pool>>;

    [[nodiscard]] static any make(ferry::device where, std::size_t bytes, stream_token on, pinned_pool const& pinned) {
        if (where.type == device_type::cpu) return buffer<fresh_host_space>{bytes};
        if (where.type == device_type::cuda_host) return buffer<pinned_pool>{bytes, pinned};
        return memory{where, bytes, on};
    }

    any owner_;
};

}  // namespace ferry::inline v0::cuda
