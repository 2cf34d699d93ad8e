// ferry: what must hold before one view is copied onto another.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/config.hpp>
#include <ferry/tensor/view.hpp>

#include <cstdint>
#include <source_location>

namespace ferry::detail {

constexpr message& operator<<(message& out, shape_view shape) noexcept {
    out << "(";
    for (int i = 0; i < shape.rank(); ++i) out << (i == 0 ? "" : ", ") << shape[i];
    return out << ")";
}

[[noreturn]] FERRY_COLD inline void fail_shape(shape_view dst, shape_view src, char const* api,
                                               std::source_location where) {
    message text{"the destination's shape "};
    text << dst << " is not the source's " << src
         << ": reshape or broadcast one of the views first";
    fail(errc::shape, api, text, where);
}

[[noreturn]] FERRY_COLD inline void fail_dtype(data_type dst, data_type src, char const* api,
                                               std::source_location where) {
    message text{"the destination's dtype "};
    text << dst << " is not the source's " << src
         << ": a copy does not convert; allocate the destination as " << src;
    fail(errc::dtype, api, text, where);
}

[[noreturn]] FERRY_COLD inline void fail_read_only(char const* api, std::source_location where) {
    fail(errc::read_only, api, "the destination is read-only (R11): copy to memory of your own",
         where);
}

[[noreturn]] FERRY_COLD inline void fail_repeated(int i, std::int64_t extent, char const* api,
                                                  std::source_location where) {
    message text{"the destination's dimension "};
    text << i << " has stride 0 and extent " << extent
         << ": its elements are one and the same, and writing them would "
         << "lose all but one (R29); copy to a compact tensor";
    fail(errc::strides, api, text, where);
}

[[noreturn]] FERRY_COLD inline void fail_overflow(shape_view shape, char const* api,
                                                  std::source_location where) {
    message text{"the shape "};
    text << shape << " has more bytes than 63 bits can count (R32): validate foreign tensors first";
    fail(errc::overflow, api, text, where);
}

/// Equal shapes and types, and a destination that can hold what is written to it.
constexpr void check_copy(tensor_view dst, tensor_view src, char const* api,
                          std::source_location where) {
    if (!(dst.shape() == src.shape())) fail_shape(dst.shape(), src.shape(), api, where);
    if (!(dst.dtype() == src.dtype())) fail_dtype(dst.dtype(), src.dtype(), api, where);
    if (dst.is_read_only()) fail_read_only(api, where);
    std::int64_t count = 0, bytes = 0;
    // Padded elements are the larger ones.
    if (!element_count(dst.shape(), count) || !byte_count(count, dst.dtype(), true, bytes))
        fail_overflow(dst.shape(), api, where);
    if (dst.strides().is_implicit() || count == 0) return;
    for (int i = 0; i < dst.rank(); ++i)
        if (dst.strides()[i] == 0 && dst.extent(i) > 1) fail_repeated(i, dst.extent(i), api, where);
}

}  // namespace ferry::detail
