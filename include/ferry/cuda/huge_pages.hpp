// ferry: unpopulated host memory in huge pages, for large copies.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/device.hpp>
#include <ferry/space/memory_space.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>

namespace FERRY_NAMESPACE::cuda {
namespace detail {

inline constexpr std::size_t huge_page = std::size_t{2} << 20;
/// Minimum size of memory that is mapped in huge pages. For smaller sizes, an allocator that caches blocks is faster
/// (glibc's malloc caches blocks of up to 32 MiB).
inline constexpr std::size_t huge_from = std::size_t{32} << 20;

/// Maps `bytes`, a multiple of huge_page, aligned to huge_page. Pages are populated by their first write.
[[nodiscard]] inline void* map_huge(std::size_t bytes) {
    std::size_t const mapped = bytes + huge_page;
    void* const all = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc{};
    auto* const begin = static_cast<std::byte*>(all);
    std::size_t const before = (huge_page - reinterpret_cast<std::uintptr_t>(begin) % huge_page) % huge_page;
    if (before != 0) static_cast<void>(munmap(begin, before));
    static_cast<void>(munmap(begin + before + bytes, huge_page - before));
    static_cast<void>(madvise(begin + before, bytes, MADV_HUGEPAGE));  // fails where there are no huge pages
    return begin + before;
}

/// Returns whether most pages of a range are unpopulated, from a sample of 7; false when the operating system does not
/// report it.
[[nodiscard]] inline bool is_untouched(void const* p, std::size_t bytes) noexcept {
    constexpr std::size_t probes = 7;
    auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    auto const begin = reinterpret_cast<std::uintptr_t>(p);
    std::size_t untouched = 0;
    for (std::size_t i = 0; i < probes; ++i) {
        auto const at = (begin + bytes / (probes + 1) * (i + 1)) / page * page;
        unsigned char resident = 1;
        if (mincore(reinterpret_cast<void*>(at), 1, &resident) == 0 && (resident & 1) == 0) ++untouched;
    }
    return 2 * untouched > probes;
}

}  // namespace detail

/// A memory space of host memory for large copies. Memory of 32 MiB or more is mapped with unpopulated pages, aligned
/// to 2 MiB, and returned to the system when it is deallocated. Huge pages, which reduce the cost of page faults, are
/// used if /sys/kernel/mm/transparent_hugepage/enabled is `madvise` or `always`. Smaller allocations, and allocations
/// with an alignment above 2 MiB, come from host_space. Stateless; thread-safe.
struct fresh_host_space {
    /// Allocates memory.
    ///
    /// \param bytes      size
    /// \param alignment  a power of two
    /// \return           memory, to be passed to `deallocate` with the same size and alignment
    /// \throws std::bad_alloc  when the allocation fails
    [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = default_alignment) const {
        if (bytes < detail::huge_from || alignment > detail::huge_page) return host_space{}.allocate(bytes, alignment);
        if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc{};
        return detail::map_huge(mapped(bytes));
    }
    /// Deallocates memory.
    ///
    /// \param p          memory returned by `allocate`
    /// \param bytes      as passed to `allocate`
    /// \param alignment  as passed to `allocate`
    void deallocate(void* p, std::size_t bytes, std::size_t alignment = default_alignment) const noexcept {
        if (bytes < detail::huge_from || alignment > detail::huge_page)
            return host_space{}.deallocate(p, bytes, alignment);
        static_cast<void>(munmap(p, mapped(bytes)));
    }
    /// Returns the device of the memory, cpu.
    [[nodiscard]] constexpr ferry::device device() const noexcept { return cpu; }

   private:
    [[nodiscard]] static constexpr std::size_t mapped(std::size_t bytes) noexcept {
        return (bytes + detail::huge_page - 1) / detail::huge_page * detail::huge_page;
    }
};

}  // namespace FERRY_NAMESPACE::cuda
