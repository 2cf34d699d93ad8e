// ferry: columns from DLPack tensors.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/copy_bits.hpp>
#include <ferry/column/detail/count_bits.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/copy.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>  // shared ownership of the tensors
#include <optional>
#include <source_location>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {
namespace detail {

/// Returns Arrow's format of a data type; empty if there is none.
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

/// Returns the tensor if it is contiguous, otherwise a contiguous copy, which is complete on return.
template <class BackEnd>
[[nodiscard]] managed_tensor contiguous(managed_tensor&& t, BackEnd& b, stream_token on, char const* api,
                                        std::source_location where) {
    auto const v = t.view();
    if (v.is_contiguous()) return std::move(t);
    static_cast<void>(check_support(b, v.device(), {api, where}));
    auto memory = b.allocate(v.device(), static_cast<std::size_t>(v.nbytes()), on);
    tensor_view const compact{static_cast<void*>(memory.data()), v.dtype(), v.shape(), {}, v.device()};
    stream_memory_guard behind{b, on, v.device()};
    ferry::copy(compact, v, b, on, where);
    behind.done();
    return make_managed(std::move(memory), compact, flags::is_copied);
}

/// Packs a tensor of bytes into bits on its device. `set` is the number of bits that are 1.
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

/// The owner of a column from tensors.
struct tensor_owner {
    managed_tensor data{};
    std::shared_ptr<void const> bits{}, validity{};
};

}  // namespace detail

/// Creates a column from a tensor of one dimension and an optional validity. Contiguous numbers are shared, other
/// numbers are copied; bools and the validity are packed into bits on their device. NaN is not null.
///
/// The elements must not be written afterwards. In host memory the column is complete on return; in device memory
/// copies are complete when `on` has run the queued work.
///
/// \param data      tensor; owned by the column, or released on failure
/// \param validity  bool or uint8, 0 for nulls; owned by the column, or released on failure
/// \param b         back end that copies
/// \param on        stream on which both tensors are ready; without one no work may be pending
/// \param where     source location of the caller
/// \throws error           errc::consumed: an empty tensor;  rank: not one dimension;  dtype: complex numbers,
///                         bfloat16, floats of 8 bits or less, or a validity of another type;  shape, device: of the
///                         validity; no_backend: the back end does not reach the device;  an error of the back end
/// \throws std::bad_alloc  when an allocation fails
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
        detail::fail(errc::rank, api,
                     message{"expected 1 dimension, got "} << data.rank() << ": reshape the tensor", where);
    if (format.empty())
        detail::fail(errc::dtype, api, message{"Arrow has no type for "} << data.dtype() << ": convert it", where);
    auto const length = data.view().extent(0);
    if (validity) {
        auto const& v = validity->view();
        bool const is_flag = v.dtype() == dtype_of<bool> || v.dtype() == dtype_of<std::uint8_t>;
        if (!is_flag)
            detail::fail(errc::dtype, api,
                         message{"expected a validity of bool or uint8, got "} << v.dtype() << ": convert it",
                         where);
        if (v.rank() != 1 || v.extent(0) != length)
            detail::fail(errc::shape, api,
                         message{"expected a validity of one dimension with "}
                             << length << " elements, as the data has: reshape it",
                         where);
        if (!is_same_device(v.device(), place))
            detail::fail(errc::device, api, message{"data and validity are on different devices: copy the validity"},
                         where);
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
