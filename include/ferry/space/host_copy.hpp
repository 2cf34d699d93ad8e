// ferry: executes copy plans on the host.
#pragma once

#include <ferry/space/copy_plan.hpp>

#include <cstddef>
#include <cstring>

namespace FERRY_NAMESPACE {
namespace detail {

FERRY_INLINE void copy_loops_on_host(copy_plan const& plan, std::byte* dst, std::byte const* src) noexcept;

}  // namespace detail

/// Executes a plan on host-accessible memory.
///
/// Blocks until the copy is complete. Runs on the calling thread; does not allocate or synchronise with devices.
/// Requires no alignment (R31). Writes only the destination's elements, and preserves the other bits of a shared byte
/// (R19).
///
/// \param plan  copy plan
/// \param dst   `writable_data()` of the destination of the plan; must not overlap `src`; null for an empty plan only
/// \param src   `data()` of the source of the plan; null for an empty plan only
inline void copy_on_host(copy_plan const& plan, void* dst, void const* src) noexcept {
    if (plan.kind == copy_kind::contiguous) [[likely]] {
        std::memcpy(static_cast<std::byte*>(dst) + plan.dst_offset,
                    static_cast<std::byte const*>(src) + plan.src_offset, static_cast<std::size_t>(plan.unit));
    } else {
        detail::copy_loops_on_host(plan, static_cast<std::byte*>(dst), static_cast<std::byte const*>(src));
    }
}

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/space/detail/host_copy.ipp>
#endif
