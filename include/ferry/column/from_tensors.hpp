// ferry: tensors become a column.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/copy_bits.hpp>
#include <ferry/column/detail/count_bits.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/copy.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // a column shares what it is made of
#include <optional>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {
namespace detail {

/// Arrow's format for an element type; empty when there is none.
[[nodiscard]] constexpr std::string_view format_of(data_type t) noexcept {
    if (t.lanes != 1) return {};
    auto const of_width = [&](char const* one, char const* two, char const* four,
                              char const* eight) -> std::string_view {
        return t.bits == 8 ? one : t.bits == 16 ? two : t.bits == 32 ? four : t.bits == 64 ? eight : "";
    };
    switch (t.code) {
        case type_code::int_: return of_width("c", "s", "i", "l");
        case type_code::uint: return of_width("C", "S", "I", "L");
        case type_code::float_: return of_width("", "e", "f", "g");
        case type_code::bool_: return "b";
        default: return {};
    }
}

/// The tensor with its elements side by side: itself, or a copy that is finished on return.
template <class BackEnd>
[[nodiscard]] managed_tensor contiguous(managed_tensor&& t, BackEnd& b, stream_token on, char const* api,
                                        std::source_location where) {
    auto const v = t.view();
    if (v.is_contiguous()) return std::move(t);
    require_reach(b, v.device(), api, where);
    auto memory = b.allocate(v.device(), static_cast<std::size_t>(v.nbytes()), on);
    tensor_view const compact{static_cast<void*>(memory.data()), v.dtype(), v.shape(), {}, v.device()};
    stream_memory_guard behind{b, on, v.device()};
    ferry::copy(compact, v, b, on, where);
    behind.done();
    return make_managed(std::move(memory), compact, flags::is_copied);
}

/// Bits of a tensor of bytes, where the tensor is; `set` gets how many are 1.
template <class BackEnd>
[[nodiscard]] std::shared_ptr<void const> packed(managed_tensor const& t, void const*& data, std::int64_t& set,
                                                 BackEnd& b, stream_token on, char const* api,
                                                 std::source_location where) {
    auto const length = t.view().extent(0);
    auto const place = t.device();
    staged_bytes const bytes{t.view().data(), length, place, b, on, api, where};
    auto const fill = [&](void* to) {
        pack_bits(static_cast<unsigned char const*>(bytes.data()), length, static_cast<unsigned char*>(to));
        set = count_set({to, 0, length});
    };
    return put_bytes(bitmap_bytes(length), place, b, on, fill,
                     [&](auto&& memory, void* at) -> std::shared_ptr<void const> {
                         data = at;
                         return std::make_shared<std::remove_cvref_t<decltype(memory)>>(std::move(memory));
                     });
}

/// What a column of tensors keeps.
struct tensor_owner {
    managed_tensor data{};
    std::shared_ptr<void const> bits{}, validity{};
};

}  // namespace detail

/// A column of a tensor of one dimension, and of the validity beside it: bool or uint8, 0 where an item is null.
/// Numbers are shared when they lie side by side, else copied; bools and the validity are packed into bits, copies
/// where the tensors are. NaN stays a number.
///
/// Owns both tensors, whatever happens. Nobody may write to them any more. Both are ready on `on`, a stream of theirs,
/// or, without one, already. On the host nothing is pending on return; copies on a device are there once `on` got so
/// far.
///
/// \throws error  errc::consumed; rank (not 1); dtype: complex numbers, bfloat16, small floats; shape, device: of the
///                validity; no_backend; what the back end reports;  std::bad_alloc
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] column from_tensors(managed_tensor data, std::optional<managed_tensor> validity = {},
                                  BackEnd&& b = host_only, stream_token on = {},
                                  std::source_location where = std::source_location::current()) {
    constexpr auto api = "ferry::from_tensors";
    if (!data || (validity && !*validity))
        detail::fail(errc::consumed, api, message{"a managed_tensor holds nothing: it was moved from or released"},
                     where);
    auto const place = data.device();
    auto const format = detail::format_of(data.dtype());
    if (data.rank() != 1)
        detail::fail(errc::rank, api, message{"the data has "} << data.rank() << " dimensions, and a column has one",
                     where);
    if (format.empty())
        detail::fail(errc::dtype, api, message{"Arrow has no type for elements of "} << data.dtype(), where);
    auto const length = data.view().extent(0);
    if (validity) {
        auto const& v = validity->view();
        bool const is_flag = v.dtype() == dtype_of<bool> || v.dtype() == dtype_of<std::uint8_t>;
        if (!is_flag)
            detail::fail(errc::dtype, api,
                         message{"the validity's elements are "} << v.dtype() << ", and must be bool or uint8", where);
        if (v.rank() != 1 || v.extent(0) != length)
            detail::fail(
                errc::shape, api,
                message{"the data has "} << length << " elements, and the validity must have as many, in one dimension",
                where);
        if (!is_same_device(v.device(), place))
            detail::fail(errc::device, api, message{"data and validity are on different devices"}, where);
    }
    on = on.on_device(place);
    auto owner = std::make_shared<detail::tensor_owner>();
    column_buffer buffers[2] = {{}, {}};
    std::int64_t set = length;
    if (validity && length != 0) {
        auto const flags = detail::contiguous(std::move(*validity), b, on, api, where);
        owner->validity = detail::packed(flags, buffers[0].data, set, b, on, api, where);
        buffers[0].bytes = bitmap_bytes(length);
        if (set == length) buffers[0] = {};  // no nulls
    }
    owner->data = detail::contiguous(std::move(data), b, on, api, where);
    buffers[1] = {owner->data.view().data(), length * (owner->data.dtype().bits / 8)};
    if (format == "b" && length != 0) {
        std::int64_t ones = 0;
        owner->bits = detail::packed(owner->data, buffers[1].data, ones, b, on, api, where);
        buffers[1].bytes = bitmap_bytes(length);
        owner->data = {};
    }
    return make_column(
        {.format = format, .length = length, .null_count = length - set, .buffers = buffers, .flags = validity ? 2 : 0},
        std::move(owner), place, where);
}

}  // namespace ferry::inline v0
