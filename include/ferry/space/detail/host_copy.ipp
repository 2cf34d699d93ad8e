// ferry: the engine of space/host_copy.hpp.
#pragma once

#include <ferry/space/host_copy.hpp>

#include <ferry/space/detail/bits.hpp>
#include <ferry/space/detail/gather.hpp>
#include <ferry/space/detail/transpose.hpp>

namespace FERRY_NAMESPACE::detail {

// Not inlined, so that copy_on_host inlines only the single memcpy.
FERRY_NOINLINE inline void copy_loops(copy_plan const& plan, std::byte* dst, std::byte const* src) noexcept {
    switch (plan.kind) {
        case copy_kind::empty:
        case copy_kind::contiguous: return;
        case copy_kind::rows:
        case copy_kind::gather: return gather(plan, plan.unit, dst, src);
        case copy_kind::transpose: return transpose(plan, plan.unit, dst, src);
        case copy_kind::bits: return copy_bits(plan, {plan.unit, plan.zero_bits}, dst, src);
    }
}

FERRY_INLINE void copy_loops_on_host(copy_plan const& plan, std::byte* dst, std::byte const* src) noexcept {
    copy_loops(plan, dst, src);
}

}  // namespace FERRY_NAMESPACE::detail
