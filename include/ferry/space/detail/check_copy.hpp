// ferry: the preconditions of a copy between two views.
#pragma once

#include <ferry/base/detail/checked.hpp>
#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/config.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>

namespace FERRY_NAMESPACE::detail {

constexpr message& operator<<(message& out, shape_view shape) noexcept {
    out << "(";
    for (int i = 0; i < shape.rank(); ++i) out << (i == 0 ? "" : ", ") << shape[i];
    return out << ")";
}

/// Reports views of different shapes. Reports NULL extents first, which `validate` rejects (R25).
[[nodiscard]] FERRY_COLD inline bool report_shape(tensor_view const& dst, tensor_view const& src, reporter r) {
    if (!has_extents(dst.shape()) || !has_extents(src.shape()))
        if (!check_view(has_extents(dst.shape()) ? src : dst, r)) return false;
    message text{"the destination's shape is "};
    text << dst.shape() << ", expected the source's " << src.shape() << ": reshape or broadcast one of the views";
    return report(r, errc::shape, text);
}

[[nodiscard]] FERRY_COLD inline bool report_dtype(data_type dst, data_type src, reporter r) {
    message text{"the destination's dtype is "};
    text << dst << ", expected the source's " << src << ", since a copy does not convert: allocate it as " << src;
    return report(r, errc::dtype, text);
}

[[nodiscard]] FERRY_COLD inline bool report_repeated(int i, std::int64_t extent, reporter r) {
    message text{"the destination's dimension "};
    text << i << " has stride 0 and extent " << extent << ", expected distinct elements "
         << "(R29): copy to a compact tensor";
    return report(r, errc::strides, text);
}

[[nodiscard]] FERRY_COLD inline bool report_overflow(shape_view shape, reporter r) {
    message text{"the shape "};
    text << shape << " has more bytes than std::int64_t can count (R32): check foreign tensors with ferry::validate";
    return report(r, errc::overflow, text);
}

[[nodiscard]] FERRY_COLD inline bool report_layout(tensor_view const& v, char const* what, reporter r) {
    if (has_strides(v))
        return report(r, errc::null_data,
                      message{"the data pointer is null, expected the address of the elements of the "}
                          << what << " (R26): allocate it first");
    return report(r, errc::strides,
                  message{"the "} << what << " has " << v.rank() << " extents but " << v.strides().rank()
                                  << " strides: pass one stride for each extent, or none for compact elements");
}

/// Returns whether the data pointer is not null and there is one stride for each extent, or none.
constexpr bool is_laid_out(tensor_view const& v) noexcept { return v.data() != nullptr && has_strides(v); }

/// Checks that shapes and data types are equal and that the destination can be written; sets `count` to the number of
/// elements. Makes one pass over the shapes, because the check takes a large part of the time of a small copy.
[[nodiscard]] constexpr bool check_copy(tensor_view const& dst, tensor_view const& src, std::int64_t& count,
                                        reporter r) {
    bool same = dst.rank() == src.rank() && has_extents(dst.shape()) && has_extents(src.shape()), fits = true;
    std::int64_t product = 1, signs = dst.rank();
    for (int i = 0; same && i < dst.rank(); ++i) {
        same = dst.extent(i) == src.extent(i);
        signs |= dst.extent(i);
        fits = checked_multiply(product, dst.extent(i), product) && fits;
    }
    if (!same) return report_shape(dst, src, r);
    if (signs < 0) return check_view(dst, r);  // reports the negative rank or extent (R32)
    if (!(dst.dtype() == src.dtype())) return report_dtype(dst.dtype(), src.dtype(), r);
    if (dst.is_read_only())
        return report(r, errc::read_only,
                      "the destination is read-only, expected writable memory (R11): copy to another tensor");
    // Checks the size with padded elements, which is at least the packed size. A shape whose product overflows may
    // still be empty.
    std::int64_t bytes = 0;
    count = 0;
    if (!fits || !checked_multiply(product, bits_per_element(dst.dtype(), true) / 8, bytes))
        return (element_count(dst.shape(), product) && product == 0) || report_overflow(dst.shape(), r);
    if (product == 0) return true;
    if (!is_laid_out(dst)) return report_layout(dst, "destination", r);
    if (!is_laid_out(src)) return report_layout(src, "source", r);
    count = product;
    int const i = repeated_dimension(dst.shape(), dst.strides());
    return i < 0 || report_repeated(i, dst.extent(i), r);
}

}  // namespace FERRY_NAMESPACE::detail
