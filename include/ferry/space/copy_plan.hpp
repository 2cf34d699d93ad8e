// ferry: what a copy consists of, as data. Whoever moves the bytes, on the host or on a device,
// executes the same plan.
#pragma once

#include <ferry/base/dtype.hpp>
#include <ferry/space/detail/check_copy.hpp>
#include <ferry/space/loop_nest.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::inline v0 {

/// The form of a copy, from the cheapest means to the most general.
enum class copy_kind : std::uint8_t {
    empty,       ///< nothing to do
    contiguous,  ///< one unit, no loops: a single memcpy
    rows,        ///< units are runs of elements or long: a memcpy each, or a pitched 2D or 3D copy
    transpose,   ///< short units; the source's fastest dimension is the loop around the
                 ///< destination's
    gather,      ///< short units at any other pair of strides, backwards and repeated ones included
    bits,        ///< units, strides and offsets count bits: elements that are not byte-aligned (R19)
};

/// A copy between two layouts of one shape: for every index of the loops, `unit` bytes (or bits, if
/// `counts_bits()`) go from the source's offset plus strides to the destination's. Units never
/// overlap in the destination.
///
/// For `transpose`, dimension rank − 1 is the destination's fastest and rank − 2 the source's;
/// otherwise dimensions are in the order of destination strides. Device-agnostic: distances, no
/// addresses.
struct copy_plan : loop_nest {
    /// Units from this size on fill a cache line: the order in which they move stops to matter.
    static constexpr std::int64_t line = 64;

    copy_kind kind = copy_kind::empty;
    std::int32_t zero_bits = 0;    ///< bits to clear after each unit: unpacking to whole bytes (R13); only with `bits`
    std::int64_t unit = 0;         ///< what moves as one piece: bytes or bits
    std::int64_t total_bytes = 0;  ///< of the elements laid out compactly in the destination's packing

    /// Whether unit, strides and offsets are bits, counted from bit 0 of the first element's byte.
    [[nodiscard]] constexpr bool counts_bits() const noexcept { return kind == copy_kind::bits; }

    friend constexpr bool operator==(copy_plan const&, copy_plan const&) = default;
};

namespace detail {

/// Enters the dimensions of two non-empty views of one shape into `nest`; units are the distances
/// that a stride of 1 means.
constexpr void add_dimensions(loop_nest& nest, tensor_view const& dst, std::int64_t dst_unit, tensor_view const& src,
                              std::int64_t src_unit) noexcept {
    // Innermost first, so that implicit strides cost a product and no loop; sorting turns the list
    // round if need be.
    std::int64_t compact = 1;
    for (int i = dst.rank(); i-- > 0;) {
        if (dst.extent(i) == 1) continue;  // its strides may be anything (R27), and overflow
        auto const d = dst.strides().is_implicit() ? compact : dst.strides()[i];
        auto const s = src.strides().is_implicit() ? compact : src.strides()[i];
        nest.add(dst.extent(i), d * dst_unit, s * src_unit);
        compact *= dst.extent(i);
    }
}

/// All strides and offsets in whole bytes? Then bits are not needed.
constexpr bool to_bytes(copy_plan& plan) noexcept {
    std::int64_t all = plan.unit | plan.dst_offset | plan.src_offset;
    for (int i = 0; i < plan.rank; ++i) all |= plan.dst_strides[i] | plan.src_strides[i];
    if (all % 8 != 0) return false;
    plan.unit /= 8;
    plan.dst_offset /= 8;
    plan.src_offset /= 8;
    for (int i = 0; i < plan.rank; ++i) {
        plan.dst_strides[i] /= 8;
        plan.src_strides[i] /= 8;
    }
    return true;
}

/// Names the form of a plan in bytes; `element` bytes went into it.
constexpr void classify(copy_plan& plan, std::int64_t element) noexcept {
    if (plan.rank == 0) {
        plan.kind = copy_kind::contiguous;
        return;
    }
    plan.kind = plan.unit > element || plan.unit >= copy_plan::line ? copy_kind::rows : copy_kind::gather;
    if (plan.rank < 2 || plan.unit >= copy_plan::line || plan.src_strides[plan.rank - 1] == 0) return;
    if (int const fastest = plan.fastest_source(); fastest != plan.rank - 1) {
        plan.move_inwards(fastest, plan.rank - 2);
        plan.kind = copy_kind::transpose;
    }
}

/// The plan of a copy whose views have been checked and have `count` elements.
[[nodiscard]] constexpr copy_plan plan_copy(tensor_view const& dst, tensor_view const& src,
                                            std::int64_t count) noexcept {
    copy_plan plan;
    if (count == 0) return plan;  // R26
    std::int64_t dst_unit = bits_per_element(dst.dtype(), dst.is_padded());
    std::int64_t src_unit = bits_per_element(src.dtype(), src.is_padded());
    bool const in_bits = (dst_unit | src_unit) % 8 != 0;
    if (in_bits) {
        plan.unit = bits_per_element(dst.dtype());
        static_cast<void>(byte_count(count, dst.dtype(), dst.is_padded(), plan.total_bytes));
    } else {
        plan.unit = dst_unit = src_unit = dst_unit / 8;
        plan.total_bytes = count * dst_unit;
        if (dst.is_contiguous() && src.is_contiguous()) {
            plan.kind = copy_kind::contiguous;
            plan.unit = plan.total_bytes;
            return plan;
        }
    }
    plan.zero_bits = static_cast<std::int32_t>(dst_unit - plan.unit);
    add_dimensions(plan, dst, dst_unit, src, src_unit);
    plan.sort();
    plan.coalesce();
    plan.unit = plan.absorb_run(plan.unit);
    if (in_bits && !to_bytes(plan)) {
        plan.kind = copy_kind::bits;
    } else {
        classify(plan, in_bits ? 0 : dst_unit);  // sub-byte elements fill bytes by runs only
    }
    return plan;
}

}  // namespace detail

/// The plan that copies `src` onto `dst`: same shape, same type, any strides. Of sub-byte types one
/// may be packed and the other padded; the plan then packs, or unpacks and clears the padding
/// (R13, R19).
///
/// Reads neither data nor devices, allocates nothing, does not synchronise. Views are taken at
/// their word: foreign ones pass `validate` first. Strides that make elements of `dst` overlap
/// without being 0 go unnoticed and leave any one of the values written.
///
/// \throws error  errc::shape or dtype when the views differ, read_only (R11), strides when `dst` repeats elements
///                (R29), overflow when they cannot be counted (R32)
[[nodiscard]] constexpr copy_plan make_copy_plan(tensor_view const& dst, tensor_view const& src,
                                                 char const* api = "ferry::make_copy_plan",
                                                 std::source_location where = std::source_location::current()) {
    auto const count = detail::check_copy(dst, src, api, where);
    return detail::plan_copy(dst, src, count);
}

}  // namespace ferry::inline v0
