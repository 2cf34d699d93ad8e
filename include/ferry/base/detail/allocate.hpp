// ferry: allocations of host memory, with and without exceptions.
#pragma once

#include <ferry/config.hpp>

#include <cstddef>
#include <new>

namespace FERRY_NAMESPACE::detail {

/// Allocates host memory. Throws std::bad_alloc; without exceptions, returns null on failure.
[[nodiscard]] inline void* allocate_bytes(std::size_t bytes) {
#if FERRY_HAS_EXCEPTIONS
    return ::operator new(bytes);
#else
    return ::operator new(bytes, std::nothrow);
#endif
}
[[nodiscard]] inline void* allocate_bytes(std::size_t bytes, std::align_val_t alignment) {
#if FERRY_HAS_EXCEPTIONS
    return ::operator new(bytes, alignment);
#else
    return ::operator new(bytes, alignment, std::nothrow);
#endif
}

}  // namespace FERRY_NAMESPACE::detail
