// ferry: exports of columns as DLPack tensors.
#pragma once

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/result.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/bits.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/column/layout.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>  // shared ownership of the bits
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry::inline FERRY_ABI_NAMESPACE {

/// The tensors of a column. Each of them owns its memory.
struct column_tensors {
    managed_tensor data;                       ///< one element for each item; unspecified for nulls
    std::optional<managed_tensor> validity{};  ///< bool, false for nulls; nothing if there are none
};

namespace detail {

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
        report(r, errc::dtype,
               message{"a column of format "} << c.name_of_format().c_str() << " cannot be a tensor: " << why));
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

/// Implements to_dlpack and to_tensor; returns any tensors after an error.
[[nodiscard]] inline column_tensors tensors_of(column const& c, back_end_ref b, stream_token on, bool is_alone,
                                               reporter r) {
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

}  // namespace detail

/// Exports a column of numbers as DLPack tensors of one dimension: integers, floats including float16, and dates,
/// times, timestamps and durations as their integers. NaN is not null.
///
/// The data is shared, read-only, and starts at the offset of a slice. Booleans, and the validity of a column with
/// nulls, are unpacked into one byte for each item: copies with the flag is_copied on the device of the column. In
/// device memory they are unpacked by the host, which waits for the bits; the tensor is complete when the copy queued
/// on `on` has completed.
///
/// Source: section "DLPack" of the Arrow specification, which defines the data but not the validity.
///
/// \param c      column; the tensors share its memory
/// \param b      back end that copies bits of device memory
/// \param on     stream on which the column is ready
/// \param where  source location of the caller
/// \return       tensors; `try_to_dlpack` returns the tensors or the error
/// \throws error           errc::dtype: strings, decimals, intervals with days, dictionaries and nested columns;
///                         stream: a null stream, or one of another device;  no_backend: the back end does not reach
///                         the device;  an error of the back end
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
template <class Column>
    requires std::same_as<std::remove_cvref_t<Column>, column>
[[nodiscard]] column_tensors to_dlpack(Column&& c, back_end_ref b = host_only, stream_token on = {},
                                       std::source_location where = std::source_location::current()) {
    return detail::tensors_of(c, b, on.on_device(c.device()), false, {"ferry::to_dlpack", where});
}
#endif
template <class Column>
    requires std::same_as<std::remove_cvref_t<Column>, column>
[[nodiscard]] result<column_tensors> try_to_dlpack(Column&& c, back_end_ref b = host_only, stream_token on = {},
                                                   std::source_location where = std::source_location::current()) {
    return detail::attempt<column_tensors>("ferry::to_dlpack", where, [&](detail::reporter r) {
        return detail::tensors_of(c, b, on.on_device(c.device()), false, r);
    });
}

/// Exports the data of a column without nulls as a tensor; see to_dlpack.
///
/// \param c      column; the tensor shares its memory
/// \param b      back end that copies bits of device memory
/// \param on     stream on which the column is ready
/// \param where  source location of the caller
/// \return       tensor; `try_to_tensor` returns the tensor or the error
/// \throws error           errc::dtype: the column has nulls;  as to_dlpack
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] inline managed_tensor to_tensor(column const& c, back_end_ref b = host_only, stream_token on = {},
                                              std::source_location where = std::source_location::current()) {
    return detail::tensors_of(c, b, on.on_device(c.device()), true, {"ferry::to_tensor", where}).data;
}
#endif
[[nodiscard]] inline result<managed_tensor> try_to_tensor(
    column const& c, back_end_ref b = host_only, stream_token on = {},
    std::source_location where = std::source_location::current()) {
    return detail::attempt<managed_tensor>("ferry::to_tensor", where, [&](detail::reporter r) {
        return detail::tensors_of(c, b, on.on_device(c.device()), true, r).data;
    });
}

// clang-format off
FERRY_DELETED_BOTH(to_dlpack, try_to_dlpack, (Column&&, request const&, Rest&&...), "the export of a column has no request: pass the back end, and the stream on which the column is ready",
    template <class Column, class... Rest> requires std::same_as<std::remove_cvref_t<Column>, column>);
FERRY_DELETED_BRACED(to_dlpack, try_to_dlpack, (Column&&, detail::wrong_request, Rest&&...), "the export of a column has no request: pass the back end, and the stream on which the column is ready",
    template <class Column, class... Rest> requires std::same_as<std::remove_cvref_t<Column>, column>);
// clang-format on

}  // namespace ferry::inline FERRY_ABI_NAMESPACE
