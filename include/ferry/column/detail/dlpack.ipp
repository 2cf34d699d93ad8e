// ferry: the engine of column/dlpack.hpp.
#pragma once

#include <ferry/column/dlpack.hpp>

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/bits.hpp>
#include <ferry/column/detail/fixed_shape.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // shared ownership of the bits
#include <vector>  // the extents of lists

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
[[nodiscard]] inline managed_tensor unpacked_tensor(bitmap_view host_bits, shape_view shape, strides_view strides,
                                                    device place, back_end_ref b, stream_token on, reporter r) {
    auto const fill = [&](void* to) { unpack_bits(host_bits, static_cast<unsigned char*>(to)); };
    auto const make = [&](std::shared_ptr<void const> owner, void* data) {
        tensor_view const v{data, dtype_of<bool>, shape, strides, place};
        return own(std::move(owner), v, flags::is_copied, version::current, r);
    };
    return put_bytes(host_bits.length(), place, b, on, fill, make, r);
}

/// Counts the nulls of the bitmap, and stages it in `bits` if there may be any. Returns -1 on failure.
[[nodiscard]] inline std::int64_t staged_nulls(column_view c, staged_bytes& kept, bitmap_view& bits, back_end_ref b,
                                               stream_token on, reporter r) {
    if (c.is_without_nulls() || !c.layout().has_validity()) return 0;
    return stage_bits(c, 0, kept, bits, b, on, r) ? c.length() - count_set(bits) : -1;
}

/// Adds the dimensions of fixed-size lists, and replaces the column by the items of the innermost.
[[nodiscard]] inline bool unnest(column_view& c, column_path const& path, tensor_dims& dims, back_end_ref b,
                                 stream_token on, reporter r) {
    staged_bytes kept;
    bitmap_view bits;
    auto const nulls = staged_nulls(c, kept, bits, b, on, r);
    if (nulls > 0)
        return report(
            r, errc::dtype,
            node_error(path, message{"it has "} << nulls << " nulls, which a tensor of lists cannot represent",
                       ": export the children, or replace the nulls by values"));
    if (nulls < 0) return false;
    if (c.type().id != type_id::fixed_size_list) return true;
    if (!add_dims(c, path, dims, r)) return false;
    column_path const below{path, c.type().id, 0, child_of(c, 0).name()};
    c = part_of_child(c, 0, c.offset());
    return unnest(c, below, dims, b, on, r);
}

FERRY_INLINE column_tensors tensors_of(column const& c, back_end_ref b, stream_token on, bool is_alone, reporter r) {
    auto v = c.view();
    auto const length = v.length();
    column_tensors out;
    if (!check_stream(on, v.device(), r)) return out;
    shape_view shape{&length, 1};
    strides_view strides{};
    std::vector<std::int64_t> extents, steps;
    if (v.type().id == type_id::fixed_size_list) {
        tensor_dims dims;
        dims.add(length);
        if (!unnest(v, column_path{v.name()}, dims, b, on, r)) return out;
        shape = extents = dims.ordered(dims.in_memory);
        if (!dims.is_ordered()) strides = steps = dims.strides();
    }
    auto const type = tensor_type_of(v, r);
    staged_bytes kept;
    bitmap_view bits;
    if (!type) return out;
    auto const nulls = extents.empty() ? staged_nulls(v, kept, bits, b, on, r) : 0;
    if (nulls > 0 && is_alone)
        static_cast<void>(report(r, errc::dtype,
                                 message{"the column has "}
                                     << nulls
                                     << " nulls, which a tensor cannot represent: use ferry::to_dlpack(column), "
                                        "which returns the validity"));
    if (nulls < 0 || (nulls > 0 && is_alone)) return out;
    if (nulls > 0) {
        out.validity = unpacked_tensor(bits, shape, {}, c.device(), b, on, r);
        if (!*out.validity) return out;
    }
    if (v.type().id == type_id::boolean) {
        if (stage_bits(v, 1, kept, bits, b, on, r))
            out.data = unpacked_tensor(bits, shape, strides, c.device(), b, on, r);
        return out;
    }
    auto const* const begin =
        v.length() == 0 ? nullptr : static_cast<std::byte const*>(v.buffers()[1].data) + v.offset() * (type->bits / 8);
    tensor_view const shared{static_cast<void const*>(begin), *type, shape, strides, c.device()};
    out.data = own(column{c}, shared, flags::none, version::current, r);
    return out;
}

}  // namespace FERRY_NAMESPACE::detail
