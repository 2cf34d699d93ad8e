// ferry: shared_space, a memory space whose allocations can be shared without a copy.
#pragma once

#include <ferry/ipc/session.hpp>
#include <ferry/space/memory_space.hpp>

#include <source_location>

namespace FERRY_NAMESPACE::ipc {

/// A memory space of the host in which every allocation is a segment of shared memory. The session shares tensors in it
/// without a copy. An allocation needs several system calls and at least five pages, so the space is intended for
/// tensors, not for small objects. Keeps the state of the session. Thread-safe.
class shared_space {
   public:
    /// \param s  session, whose state the space keeps
    FERRY_INLINE explicit shared_space(session& s) noexcept;

    /// Allocates zeroed memory.
    /// \param bytes      size
    /// \param alignment  at most 4096
    /// \throws error  errc::out_of_memory: /dev/shm is full; errc::alignment, permission, unsupported_platform
    [[nodiscard]] FERRY_INLINE void* allocate(std::size_t bytes, std::size_t alignment = default_alignment,
                                              std::source_location where = std::source_location::current());
    /// Frees memory of this space, and removes its name if this process allocated it. Importers keep their mappings.
    /// \param p  memory returned by `allocate`
    FERRY_INLINE void deallocate(void* p, std::size_t, std::size_t = default_alignment) noexcept;
    [[nodiscard]] constexpr ferry::device device() const noexcept { return cpu; }
    /// Returns whether a tensor lies in memory that the session shares without a copy.
    /// \param v  tensor with elements
    [[nodiscard]] FERRY_INLINE bool contains(tensor_view const& v) const;

   private:
    std::shared_ptr<detail::session_state> state_;
};

static_assert(memory_space<shared_space>);

}  // namespace FERRY_NAMESPACE::ipc

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/ipc/detail/space.ipp>
#endif
