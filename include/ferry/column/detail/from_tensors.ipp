// ferry: the engine of column/from_tensors.hpp.
#pragma once

#include <ferry/column/from_tensors.hpp>

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/bits.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/space/copy.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // shared ownership of the tensors
#include <type_traits>
#include <utility>

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
    auto const length = trusted::view(t).extent(0);
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
                                        reporter r) {
    if (!data || (validity && !*validity))
        return report(r, errc::consumed,
                      "a managed_tensor is empty, because it was moved from or released: pass one that has data");
    if (data.rank() != 1)
        return report(r, errc::rank, message{"expected 1 dimension, got "} << data.rank() << ": reshape the tensor");
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

/// Implements from_tensors and try_from_tensors; returns an empty column on failure.
[[nodiscard]] inline column column_of(managed_tensor data, std::optional<managed_tensor> validity, back_end_ref b,
                                      stream_token on, reporter r) {
    if (!check_tensors(data, validity, r)) return {};
    auto const place = data.device();
    if (!check_stream(on, place, r)) return {};
    auto const format = format_of(data.dtype());
    auto const length = trusted::view(data).extent(0);
    on = on.on_device(place);
    auto owner = std::make_shared<tensor_owner>();
    column_buffer buffers[2] = {{}, {}};
    std::int64_t set = length;
    if (validity && length != 0) {
        auto const flags = contiguous(std::move(*validity), b, on, r);
        if (!flags) return {};
        owner->validity = packed(flags, buffers[0].data, set, b, on, r);
        if (owner->validity == nullptr) return {};
        buffers[0].bytes = bitmap_bytes(length);
        if (set == length) buffers[0] = {};  // no nulls
    }
    owner->data = contiguous(std::move(data), b, on, r);
    if (!owner->data) return {};
    buffers[1] = {trusted::view(owner->data).data(), length * (owner->data.dtype().bits / 8)};
    if (format == "b" && length != 0) {
        std::int64_t ones = 0;
        owner->bits = packed(owner->data, buffers[1].data, ones, b, on, r);
        if (owner->bits == nullptr) return {};
        buffers[1].bytes = bitmap_bytes(length);
        owner->data = {};
    }
    return build_column(
        {.format = format, .length = length, .null_count = length - set, .buffers = buffers, .flags = validity ? 2 : 0},
        std::move(owner), place, r);
}

}  // namespace detail

#if FERRY_HAS_EXCEPTIONS
FERRY_INLINE column from_tensors(managed_tensor data, std::optional<managed_tensor> validity, back_end_ref b,
                                 stream_token on, std::source_location where) {
    return detail::column_of(std::move(data), std::move(validity), b, on, {"ferry::from_tensors", where});
}
#endif
FERRY_INLINE result<column> try_from_tensors(managed_tensor data, std::optional<managed_tensor> validity,
                                             back_end_ref b, stream_token on, std::source_location where) {
    return detail::attempt<column>("ferry::from_tensors", where, [&](detail::reporter r) {
        return detail::column_of(std::move(data), std::move(validity), b, on, r);
    });
}

}  // namespace FERRY_NAMESPACE
