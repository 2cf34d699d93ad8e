// ferry: the engine of column/from_tensors.hpp.
#pragma once

#include <ferry/column/from_tensors.hpp>

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/bits.hpp>
#include <ferry/column/detail/fixed_shape.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/space/copy.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <algorithm>  // std::sort
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>  // shared ownership of the tensors
#include <string>  // the formats of lists
#include <type_traits>
#include <utility>
#include <vector>  // one entry for each dimension

namespace FERRY_NAMESPACE {
namespace detail {

FERRY_INLINE std::string_view format_of(data_type t) noexcept {
    for (auto const& f : plain_formats)
        if (f.text[1] == '\0' && data_type_of({.id = f.id}) == t) return {f.text, 1};
    return t == dtype_of<bool> ? "b" : std::string_view{};
}

FERRY_INLINE managed_tensor contiguous(managed_tensor&& t, back_end_ref b, stream_token on, reporter r) {
    auto const v = trusted::view(t);
    if (v.is_contiguous()) return std::move(t);
    if (!check_support(b, v.device(), r)) return {};
    auto memory = b.allocate(v.device(), static_cast<std::size_t>(v.nbytes()), on);
    if (!check_memory(memory, r)) return {};
    tensor_view const compact{static_cast<void*>(unwrapped(memory).data()), v.dtype(), v.shape(), {}, v.device()};
    stream_memory_guard behind{b, on, v.device()};
    if (copy_elements(compact, v, b, on, r) == 0) return {};  // not contiguous, so there are elements
    behind.done();
    return own(std::move(unwrapped(memory)), compact, flags::is_copied, version::current, r);
}

/// Packs a tensor of bytes into bits on its device. `set` is the number of bits that are 1. Returns null on failure.
[[nodiscard]] inline std::shared_ptr<void const> packed(managed_tensor const& t, void const*& data, std::int64_t& set,
                                                        back_end_ref b, stream_token on, reporter r) {
    auto const length = trusted::view(t).size();
    auto const place = t.device();
    staged_bytes bytes;
    if (!bytes.stage(trusted::view(t).data(), length, place, b, on, r)) return nullptr;
    auto const fill = [&](void* to) {
        pack_bits(static_cast<unsigned char const*>(bytes.data()), length, static_cast<unsigned char*>(to));
        set = count_set({to, 0, length});
    };
    auto const make = [&](std::shared_ptr<void const> owner, void* at) {
        data = at;
        return owner;
    };
    return put_bytes(bitmap_bytes(length), place, b, on, fill, make, r);
}

/// The owner of a column from tensors.
struct tensor_owner {
    managed_tensor data{};
    std::shared_ptr<void const> bits{}, validity{};
};

[[nodiscard]] inline bool check_tensors(managed_tensor const& data, std::optional<managed_tensor> const& validity,
                                        tensor_items as, reporter r) {
    if (!data || (validity && !*validity))
        return report(r, errc::consumed,
                      "a managed_tensor is empty, because it was moved from or released: pass one that has data");
    if (int const least = as == tensor_items::lists ? 1 : 2; data.rank() < least)
        return report(r, errc::rank,
                      message{"expected at least "} << least << (least == 1 ? " dimension" : " dimensions") << ", got "
                                                    << data.rank() << ": reshape the tensor");
    if (format_of(data.dtype()).empty())
        return report(r, errc::dtype, message{"Arrow has no type for "} << data.dtype() << ": convert it");
    if (!validity) return true;
    auto const& v = trusted::view(*validity);
    auto const length = trusted::view(data).extent(0);
    if (v.dtype() != dtype_of<bool> && v.dtype() != dtype_of<std::uint8_t>)
        return report(r, errc::dtype,
                      message{"expected a validity of bool or uint8, got "} << v.dtype() << ": convert it");
    if (v.rank() != 1 || v.extent(0) != length)
        return report(r, errc::shape,
                      message{"expected a validity of one dimension with "}
                          << length << " elements, as the data has: reshape it");
    return is_same_device(v.device(), data.device()) ||
           report(r, errc::device, "data and validity are on different devices: copy the validity");
}

/// Returns the dimensions of a tensor. For arrow.fixed_shape_tensor, `is_shared` is set if the elements of each row are
/// compact in another order of the dimensions.
[[nodiscard]] inline tensor_dims dims_of(tensor_view const& v, tensor_items as, bool& is_shared) {
    tensor_dims out;
    for (auto const extent : v.shape()) out.add(extent);
    is_shared = v.is_contiguous();
    if (is_shared || as == tensor_items::lists) return out;
    std::vector<std::int64_t> const strides(v.strides().begin(), v.strides().end());
    tensor_dims by_stride = out;
    std::sort(by_stride.order.begin() + 1, by_stride.order.end(),
              [&](std::size_t i, std::size_t j) { return strides[i] != strides[j] ? strides[i] > strides[j] : i < j; });
    by_stride.in_memory = by_stride.ordered(out.in_memory);
    auto const steps = by_stride.ordered(strides);
    is_shared = tensor_view{v.data(), v.dtype(), by_stride.in_memory, steps, v.device()}.is_contiguous();
    if (!is_shared) return out;
    for (std::size_t k = 0; k < strides.size(); ++k) out.order[by_stride.order[k]] = k;
    out.in_memory = std::move(by_stride.in_memory);
    return out;
}

/// Computes the sizes of the lists, from the outermost on, and the number of items of each level.
[[nodiscard]] inline bool find_sizes(tensor_dims const& dims, tensor_items as, std::vector<std::int64_t>& sizes,
                                     std::vector<std::int64_t>& counts, reporter r) {
    counts.push_back(dims.in_memory[0]);
    for (std::size_t i = 1; i < dims.in_memory.size(); ++i) {
        if (i == 1 || as == tensor_items::lists) {
            sizes.push_back(1);
            counts.push_back(counts.back());
        }
        if (!checked_multiply(sizes.back(), dims.in_memory[i], sizes.back()) ||
            sizes.back() > (std::numeric_limits<std::int32_t>::max)())
            return report(r, errc::overflow, "a list would have more than 2147483647 items: reshape the tensor");
        if (!checked_multiply(counts.back(), dims.in_memory[i], counts.back()))
            return report(r, errc::overflow,
                          "the number of items exceeds 63 bits: remove the dimensions without items");
    }
    return true;
}

/// Implements from_tensors and try_from_tensors; returns an empty column on failure.
[[nodiscard]] inline column column_of(managed_tensor data, std::optional<managed_tensor> validity, back_end_ref b,
                                      stream_token on, tensor_items as, reporter r) {
    if (!check_tensors(data, validity, as, r)) return {};
    auto const place = data.device();
    if (!check_stream(on, place, r)) return {};
    auto const format = format_of(data.dtype());
    auto const length = trusted::view(data).extent(0);
    on = on.on_device(place);
    bool is_shared = false;
    std::vector<std::int64_t> sizes, counts;
    auto const dims = dims_of(trusted::view(data), as, is_shared);
    if (!find_sizes(dims, as, sizes, counts, r)) return {};
    auto owner = std::make_shared<tensor_owner>();
    column_buffer buffers[3]{};  // the validity of the rows, that of the items in lists, and the numbers
    auto& [rows, none, numbers] = buffers;
    std::int64_t set = length;
    if (validity && length != 0) {
        auto const flags = contiguous(std::move(*validity), b, on, r);
        if (!flags) return {};
        owner->validity = packed(flags, rows.data, set, b, on, r);
        if (owner->validity == nullptr) return {};
        rows.bytes = bitmap_bytes(length);
        if (set == length) rows = {};  // no nulls
    }
    owner->data = is_shared ? std::move(data) : contiguous(std::move(data), b, on, r);
    if (!owner->data) return {};
    numbers = {trusted::view(owner->data).data(), counts.back() * (owner->data.dtype().bits / 8)};
    if (format == "b" && counts.back() != 0) {
        std::int64_t ones = 0;
        owner->bits = packed(owner->data, numbers.data, ones, b, on, r);
        if (owner->bits == nullptr) return {};
        numbers.bytes = bitmap_bytes(counts.back());
        owner->data = {};
    }
    if (sizes.empty()) none = rows;  // the numbers are the rows
    std::vector<std::string> formats(sizes.size());
    std::vector<column_parts> parts(counts.size());
    parts.back() = {
        .format = format, .name = "item", .length = counts.back(), .null_count = 0, .buffers = {buffers + 1, 2}};
    for (std::size_t i = sizes.size(); i-- > 0;) {
        formats[i] = "+w:" + std::to_string(sizes[i]);
        parts[i] = {.format = formats[i],
                    .name = "item",
                    .length = counts[i],
                    .null_count = 0,
                    .buffers = {i == 0 ? &rows : &none, 1},
                    .children = {&parts[i + 1], 1}};
    }
    auto& root = parts.front();
    root.name = {};
    root.null_count = length - set;
    root.flags = validity ? 2 : 0;
    metadata_builder extension;
    if (as == tensor_items::fixed_shape_tensor && !dims.write(extension, r)) return {};
    root.metadata = extension.bytes();
    return build_column(root, std::move(owner), place, r);
}

}  // namespace detail

#if FERRY_HAS_EXCEPTIONS
FERRY_INLINE column from_tensors(managed_tensor data, std::optional<managed_tensor> validity, back_end_ref b,
                                 stream_token on, tensor_items as, std::source_location where) {
    return detail::column_of(std::move(data), std::move(validity), b, on, as, {"ferry::from_tensors", where});
}
#endif
FERRY_INLINE result<column> try_from_tensors(managed_tensor data, std::optional<managed_tensor> validity,
                                             back_end_ref b, stream_token on, tensor_items as,
                                             std::source_location where) {
    return detail::attempt<column>("ferry::from_tensors", where, [&](detail::reporter r) {
        return detail::column_of(std::move(data), std::move(validity), b, on, as, r);
    });
}

}  // namespace FERRY_NAMESPACE
