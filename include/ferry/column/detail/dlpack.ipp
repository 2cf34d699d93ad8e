// ferry: the engine of column/dlpack.hpp.
#pragma once

#include <ferry/column/dlpack.hpp>

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/bits.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // shared ownership of the bits

namespace FERRY_NAMESPACE::detail {

/// Reports errc::dtype, and returns nothing, for a column that cannot be a tensor.
[[nodiscard]] inline std::optional<data_type> tensor_type_of(column_view c, reporter r) {
    if (c.has_dictionary()) {
        static_cast<void>(
            report(r, errc::dtype,
                   "the column is dictionary-encoded: export dictionary() and a column of the indices separately"));
        return std::nullopt;
    }
    if (c.type().id == type_id::boolean) return dtype_of<bool>;
    if (auto const type = data_type_of(c.type())) return type;
    char const* const why = c.type().id == type_id::decimal ? "decimals have no DLPack data type: cast the column"
                            : c.child_count() > 0           ? "it is nested: export its children"
                            : c.layout().buffer_count > 2 || is_view(c.type().id)
                                ? "its items differ in length: export it by Arrow's interfaces"
                                : "its items have no DLPack data type: export it by Arrow's interfaces";
    static_cast<void>(
        report(r, errc::dtype, message{"a column of format "} << c.name_of_format() << " cannot be a tensor: " << why));
    return std::nullopt;
}

/// Returns a tensor with one byte for each bit, in new memory on the device of the column.
[[nodiscard]] inline managed_tensor unpacked_tensor(bitmap_view host_bits, device place, back_end_ref b,
                                                    stream_token on, reporter r) {
    auto const length = host_bits.length();
    auto const fill = [&](void* to) { unpack_bits(host_bits, static_cast<unsigned char*>(to)); };
    auto const make = [&](std::shared_ptr<void const> owner, void* data) {
        tensor_view const v{data, dtype_of<bool>, {&length, 1}, {}, place};
        return own(std::move(owner), v, flags::is_copied, version::current, r);
    };
    return put_bytes(length, place, b, on, fill, make, r);
}

FERRY_INLINE column_tensors tensors_of(column const& c, back_end_ref b, stream_token on, bool is_alone, reporter r) {
    auto const v = c.view();
    auto const length = v.length();
    column_tensors out;
    if (!check_stream(on, v.device(), r)) return out;
    auto const type = tensor_type_of(v, r);
    staged_bytes kept;
    bitmap_view bits;
    if (!type) return out;
    if (!v.is_without_nulls() && length != 0) {
        if (!stage_bits(v, 0, kept, bits, b, on, r)) return out;
        if (auto const nulls = length - count_set(bits); nulls != 0) {
            if (is_alone) {
                static_cast<void>(report(
                    r, errc::dtype,
                    message{"the column has "}
                        << nulls
                        << " nulls, which a tensor cannot represent: use ferry::to_dlpack(column), which returns "
                           "the validity"));
                return out;
            }
            out.validity = unpacked_tensor(bits, c.device(), b, on, r);
            if (!*out.validity) return out;
        }
    }
    if (v.type().id == type_id::boolean) {
        if (stage_bits(v, 1, kept, bits, b, on, r)) out.data = unpacked_tensor(bits, c.device(), b, on, r);
        return out;
    }
    auto const* const begin =
        length == 0 ? nullptr : static_cast<std::byte const*>(v.buffers()[1].data) + v.offset() * (type->bits / 8);
    tensor_view const shared{static_cast<void const*>(begin), *type, {&length, 1}, {}, c.device()};
    out.data = own(column{c}, shared, flags::none, version::current, r);
    return out;
}

}  // namespace FERRY_NAMESPACE::detail
