// ferry: executes copy plans with the host's own instructions.
#pragma once

#include <ferry/space/copy_plan.hpp>
#include <ferry/space/detail/bits.hpp>
#include <ferry/space/detail/gather.hpp>
#include <ferry/space/detail/transpose.hpp>

#include <cstddef>
#include <cstring>

namespace ferry::inline v0 {
namespace detail {

// Apart from the one-memcpy case, so that callers inline only that.
[[gnu::noinline]] inline void copy_loops_on_host(copy_plan const& plan, std::byte* dst, std::byte const* src) noexcept {
    switch (plan.kind) {
        case copy_kind::empty:
        case copy_kind::contiguous: return;
        case copy_kind::rows:
        case copy_kind::gather: return gather(plan, plan.unit, dst, src);
        case copy_kind::transpose: return transpose(plan, plan.unit, dst, src);
        case copy_kind::bits: return copy_bits(plan, {plan.unit, plan.zero_bits}, dst, src);
    }
}

}  // namespace detail

/// Executes a plan on memory that the host can access. `dst` and `src` are the first elements of
/// the views that the plan was made from: `tensor_view::data()`. They may be null only for empty
/// plans.
///
/// Single-threaded, allocates nothing, has returned when the bytes are there; does not synchronise
/// with devices. Needs no alignment (R31). Never writes outside the destination's elements, not
/// even the other bits of a shared byte (R19). `dst` and `src` must not share memory. Runs go
/// through memcpy, which knows best from which size on to write past the caches.
inline void copy_on_host(copy_plan const& plan, void* dst, void const* src) noexcept {
    if (plan.kind == copy_kind::contiguous) [[likely]] {
        std::memcpy(static_cast<std::byte*>(dst) + plan.dst_offset,
                    static_cast<std::byte const*>(src) + plan.src_offset, static_cast<std::size_t>(plan.unit));
    } else {
        detail::copy_loops_on_host(plan, static_cast<std::byte*>(dst), static_cast<std::byte const*>(src));
    }
}

}  // namespace ferry::inline v0
