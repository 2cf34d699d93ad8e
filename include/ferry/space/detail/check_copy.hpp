// ferry: the preconditions of a copy between two views.
#pragma once

#include <ferry/base/checked.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/config.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::inline v0::detail {

constexpr message& operator<<(message& out, shape_view shape) noexcept {
    out << "(";
    for (int i = 0; i < shape.rank(); ++i) out << (i == 0 ? "" : ", ") << shape[i];
    return out << ")";
}

/// Fails for views of different shapes. Reports NULL extents first, which `validate` rejects (R25).
[[noreturn]] FERRY_COLD inline void fail_shape(tensor_view const& dst, tensor_view const& src, char const* api,
                                               std::source_location where) {
    if (!has_extents(dst.shape()) || !has_extents(src.shape()))
        validate_view(has_extents(dst.shape()) ? src : dst, api, where);
    message text{"the destination's shape is "};
    text << dst.shape() << ", expected the source's " << src.shape() << ": reshape or broadcast one of the views";
    fail(errc::shape, api, text, where);
}

[[noreturn]] FERRY_COLD inline void fail_dtype(data_type dst, data_type src, char const* api,
                                               std::source_location where) {
    message text{"the destination's dtype is "};
    text << dst << ", expected the source's " << src << ", since a copy does not convert: allocate it as " << src;
    fail(errc::dtype, api, text, where);
}

[[noreturn]] FERRY_COLD inline void fail_read_only(char const* api, std::source_location where) {
    fail(errc::read_only, api, "the destination is read-only, expected writable memory (R11): copy to another tensor",
         where);
}

[[noreturn]] FERRY_COLD inline void fail_repeated(int i, std::int64_t extent, char const* api,
                                                  std::source_location where) {
    message text{"the destination's dimension "};
    text << i << " has stride 0 and extent " << extent << ", expected distinct elements "
         << "(R29): copy to a compact tensor";
    fail(errc::strides, api, text, where);
}

[[noreturn]] FERRY_COLD inline void fail_overflow(shape_view shape, char const* api, std::source_location where) {
    message text{"the shape "};
    text << shape << " has more bytes than std::int64_t can count (R32): check foreign tensors with ferry::validate";
    fail(errc::overflow, api, text, where);
}

[[noreturn]] FERRY_COLD inline void fail_layout(tensor_view const& v, char const* what, char const* api,
                                                std::source_location where) {
    if (v.strides().is_implicit() || v.strides().rank() == v.rank())
        fail(errc::null_data, api,
             message{"the data pointer is null, expected the address of the elements of the "}
                 << what << " (R26): allocate it first",
             where);
    fail(errc::strides, api,
         message{"the "} << what << " has " << v.rank() << " extents but " << v.strides().rank()
                         << " strides: pass one stride for each extent, or none for compact elements",
         where);
}

/// Returns whether the data pointer is not null and there is one stride for each extent, or none.
constexpr bool is_laid_out(tensor_view const& v) noexcept {
    return v.data() != nullptr && (v.strides().is_implicit() || v.strides().rank() == v.rank());
}

/// Checks that shapes and data types are equal and that the destination can be written; returns the number of elements.
/// Makes one pass over the shapes, since the check is a large part of the time of a small copy.
constexpr std::int64_t check_copy(tensor_view const& dst, tensor_view const& src, char const* api,
                                  std::source_location where) {
    // mutant: copy_extents_dst, copy_extents_src
    bool same = dst.rank() == src.rank() && has_extents(dst.shape()) && has_extents(src.shape()), fits = true;
    std::int64_t count = 1, signs = dst.rank();
    for (int i = 0; same && i < dst.rank(); ++i) {
        same = dst.extent(i) == src.extent(i);
        signs |= dst.extent(i);
        fits = checked_multiply(count, dst.extent(i), count) && fits;
    }
    if (!same) fail_shape(dst, src, api, where);
    if (signs < 0) validate_view(dst, api, where);  // reports the negative rank or extent (R32)
    if (!(dst.dtype() == src.dtype())) fail_dtype(dst.dtype(), src.dtype(), api, where);
    if (dst.is_read_only()) fail_read_only(api, where);
    // Uses the padded size, which is at least the packed size. A shape whose product overflows may still be empty.
    std::int64_t bytes = 0;
    if (!fits || !checked_multiply(count, bits_per_element(dst.dtype(), true) / 8, bytes)) {
        if (!element_count(dst.shape(), count) || count != 0) fail_overflow(dst.shape(), api, where);
        return 0;
    }
    if (count == 0) return 0;
    if (!is_laid_out(dst)) fail_layout(dst, "destination", api, where);
    if (!is_laid_out(src)) fail_layout(src, "source", api, where);
    if (dst.strides().is_implicit()) return count;
    for (int i = 0; i < dst.rank(); ++i)
        if (dst.strides()[i] == 0 && dst.extent(i) > 1) fail_repeated(i, dst.extent(i), api, where);
    return count;
}

}  // namespace ferry::inline v0::detail
