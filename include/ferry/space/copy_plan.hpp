// ferry: the description of a copy. The host and every back end execute the same plan.
#pragma once

#include <ferry/base/result.hpp>
#include <ferry/space/detail/check_copy.hpp>
#include <ferry/space/loop_nest.hpp>

#include <source_location>

namespace FERRY_NAMESPACE {

/// Kind of a copy, from the cheapest to the most general.
enum class copy_kind : std::uint8_t {
    empty,       ///< no elements
    contiguous,  ///< one unit without loops, copied by a single memcpy
    rows,        ///< units of several elements, or of at least a cache line: one memcpy per unit, or pitched copies
    transpose,   ///< short units; source and destination have different fastest dimensions
    gather,      ///< short units with any other strides, including negative and zero source strides
    bits,        ///< elements that are not byte-aligned (R19); units, strides and offsets are in bits
};

/// A copy between two layouts of the same shape.
///
/// For each combination of loop indices, `unit` bytes (bits, if `counts_bits()`) are copied. Their position on each
/// side is the offset plus the sum of the products of indices and strides. Units overlap in the destination only if its
/// elements do. Contains distances, not addresses; independent of the device.
///
/// For `transpose`, dimension rank − 1 is the fastest of the destination and rank − 2 the fastest of the source. For
/// other kinds, the dimensions are sorted by destination stride, largest first.
struct copy_plan : loop_nest {
    /// Size of a cache line in bytes. Units of at least this size can be copied in any order at the same speed.
    static constexpr std::int64_t line = 64;

    copy_kind kind = copy_kind::empty;
    std::int32_t zero_bits = 0;    ///< bits to clear after each unit when unpacking to bytes (R13); kind `bits` only
    std::int64_t unit = 0;         ///< size of a contiguous unit, in bytes or bits
    std::int64_t total_bytes = 0;  ///< size of the elements when compact, in the destination's packing

    /// Returns whether unit, strides and offsets are in bits, counted from bit 0 of the first element's byte.
    [[nodiscard]] constexpr bool counts_bits() const noexcept { return kind == copy_kind::bits; }

    friend constexpr bool operator==(copy_plan const&, copy_plan const&) = default;
};

namespace detail {

/// Adds the dimensions of two non-empty views of the same shape to `nest`; `dst_unit` and `src_unit` are the distances
/// that a stride of 1 spans.
constexpr void add_dimensions(loop_nest& nest, tensor_view const& dst, std::int64_t dst_unit, tensor_view const& src,
                              std::int64_t src_unit) noexcept {
    // Innermost first, so that an implicit stride is a running product; sort() reverses the dimensions if necessary.
    std::int64_t compact = 1;
    for (int i = dst.rank(); i-- > 0;) {
        if (dst.extent(i) == 1) continue;  // its strides are arbitrary (R27) and may overflow
        auto const d = dst.strides().is_implicit() ? compact : dst.strides()[i];
        auto const s = src.strides().is_implicit() ? compact : src.strides()[i];
        nest.add(dst.extent(i), d * dst_unit, s * src_unit);
        compact *= dst.extent(i);
    }
}

/// Converts a plan in bits to bytes. Returns false when a distance is not a whole number of bytes.
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

/// Sets the kind of a plan in bytes; `element` is the size of the elements in bytes.
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

/// Plans a copy of `count` elements between views that check_copy accepted.
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
        // Element size 0: a unit, which contains several sub-byte elements, then always counts as a run.
        classify(plan, in_bits ? 0 : dst_unit);
    }
    return plan;
}

}  // namespace detail

/// Plans a copy of `src` to `dst`.
///
/// Shapes and data types must be equal; strides may differ. For sub-byte types one view may be packed and the other
/// padded; the plan then packs, or unpacks and clears the padding (R13, R19). Reads metadata only; does not allocate or
/// synchronise. The views must be valid: check foreign structs with `validate` first. Overlapping elements of `dst` are
/// detected for stride 0 only; with other strides, an overlapping element receives one of the values.
///
/// \param dst    destination
/// \param src    source
/// \param api    name of the public function, for errors; static storage
/// \return       plan; of kind empty when there are no elements (R26); `try_make_copy_plan` returns the plan or the
///               error
/// \throws error  errc::shape or dtype when the views differ; errc::rank or shape for a negative rank or extent;
///                errc::read_only (R11); errc::strides when `dst` repeats elements (R29) or the number of strides
///                differs from the rank; errc::null_data; errc::overflow when the size exceeds 63 bits (R32)
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] constexpr copy_plan make_copy_plan(tensor_view const& dst, tensor_view const& src,
                                                 char const* api = "ferry::make_copy_plan",
                                                 std::source_location where = std::source_location::current()) {
    std::int64_t count = 0;
    static_cast<void>(detail::check_copy(dst, src, count, {api, where}));
    return detail::plan_copy(dst, src, count);
}
#endif
[[nodiscard]] inline result<copy_plan> try_make_copy_plan(
    tensor_view const& dst, tensor_view const& src, char const* api = "ferry::make_copy_plan",
    std::source_location where = std::source_location::current()) {
    detail::record to{api, where};
    std::int64_t count = 0;
    if (detail::check_copy(dst, src, count, to)) return detail::plan_copy(dst, src, count);
    return to.outcome.error();
}

}  // namespace FERRY_NAMESPACE
