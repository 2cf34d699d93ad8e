// ferry: a memory space that spills tensors when it is out of memory.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/error.hpp>
#include <ferry/config.hpp>
#include <ferry/lease/spill_manager.hpp>
#include <ferry/space/memory_space.hpp>

#include <cstddef>
#include <memory>  // shares the state of the manager
#include <new>
#include <utility>

namespace FERRY_NAMESPACE {

/// A memory space that spills tensors of a manager when another space is out of memory, and tries again. As thread-safe
/// as the other space.
template <memory_space Space>
class retrying_space {
   public:
    /// Constructs a space.
    ///
    /// \param space    space that allocates; usually that of the manager
    /// \param manager  manager whose tensors are spilled
    retrying_space(Space space, spill_manager const& manager) noexcept
        : space_{std::move(space)}, core_{manager.core_} {}

    /// Allocates memory. Spills tensors, or waits for memory that other threads free, while the space is out of memory.
    ///
    /// \param bytes      size
    /// \param alignment  alignment in bytes
    /// \return           memory of the other space; null if that returns null
    /// \throws           exceptions of the other space; std::bad_alloc and errc::out_of_memory only when no tensor can
    ///                   be spilled
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) {
        for (;;) {
            auto const seen = core_->freed();
            try {
                void* const p = space_.allocate(bytes, alignment);
                if (p != nullptr || !core_->make_room(bytes, seen)) return p;
            } catch (error const& e) {
                if (e.code() != errc::out_of_memory || !core_->make_room(bytes, seen)) throw;
            } catch (std::bad_alloc const&) {
                if (!core_->make_room(bytes, seen)) throw;
            }
        }
    }
    /// Releases memory.
    ///
    /// \param p          memory that `allocate` returned
    /// \param bytes      size that was passed to `allocate`
    /// \param alignment  alignment that was passed to `allocate`
    void deallocate(void* p, std::size_t bytes, std::size_t alignment = default_alignment) noexcept {
        space_.deallocate(p, bytes, alignment);
    }
    /// Returns the device of the other space.
    [[nodiscard]] ferry::device device() const noexcept { return space_.device(); }
    /// Returns whether the other space contains a tensor.
    ///
    /// \param v  tensor with elements
    [[nodiscard]] bool contains(tensor_view const& v) const
        requires containing_space<Space>
    {
        return space_.contains(v);
    }

   private:
    Space space_;
    std::shared_ptr<detail::spill_core> core_;
};

}  // namespace FERRY_NAMESPACE
