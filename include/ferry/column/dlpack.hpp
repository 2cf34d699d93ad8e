// ferry: exports of columns as DLPack tensors.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/detail/copy_bits.hpp>
#include <ferry/column/detail/count_bits.hpp>
#include <ferry/column/detail/staged_bytes.hpp>
#include <ferry/column/dtype.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>  // shared ownership of the buffers
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {

/// The tensors of a column. Each of them owns its memory.
struct column_tensors {
    managed_tensor data;                       ///< one element for each item; unspecified for nulls
    std::optional<managed_tensor> validity{};  ///< bool, false for nulls; nothing if there are none
};

namespace detail {

/// \throws error  errc::dtype
[[nodiscard]] inline data_type tensor_type_of(column_view c, char const* api, std::source_location where) {
    auto const type = c.type().id == type_id::boolean ? std::optional{dtype_of<bool>} : data_type_of(c.type());
    if (c.has_dictionary())
        fail(
            errc::dtype, api,
            message{"the column is dictionary-encoded: export dictionary() and a column of the indices separately"},
            where);
    if (type) return *type;
    char const* const why = c.type().id == type_id::decimal ? "decimals have no DLPack data type: cast the column"
                            : c.child_count() > 0           ? "it is nested: export its children"
                            : c.layout().buffer_count > 2 || is_view(c.type().id)
                                ? "its items differ in length: export it by Arrow's interfaces"
                                : "its items have no DLPack data type: export it by Arrow's interfaces";
    fail(errc::dtype, api,
         message{"a column of format "} << c.name_of_format().c_str() << " cannot be a tensor: " << why, where);
}

/// Returns a tensor with one byte for each bit, in new memory on the device of the column.
template <class BackEnd>
[[nodiscard]] managed_tensor unpacked_tensor(bitmap_view host_bits, device place, BackEnd& b, stream_token on) {
    auto const length = host_bits.length();
    auto const fill = [&](void* to) { unpack_bits(host_bits, static_cast<unsigned char*>(to)); };
    return put_bytes(length, place, b, on, fill, [&](auto&& memory, void* data) {
        return make_managed(std::move(memory), tensor_view{data, dtype_of<bool>, {&length, 1}, {}, place},
                            flags::is_copied);
    });
}

template <class BackEnd>
[[nodiscard]] column_tensors tensors_of(column const& c, BackEnd& b, stream_token on, bool is_alone, char const* api,
                                        std::source_location where) {
    auto const v = c.view();
    auto const type = tensor_type_of(v, api, where);
    auto const length = v.length();
    column_tensors out;
    if (!v.is_without_nulls() && length != 0) {
        staged_bits const bits{v, 0, b, on, api, where};
        if (auto const nulls = length - count_set(bits.view()); nulls != 0) {
            if (is_alone)
                fail(
                    errc::dtype, api,
                    message{"the column has "}
                        << nulls
                        << " nulls, which a tensor cannot represent: use ferry::to_dlpack(column), which returns "
                           "the validity",
                    where);
            out.validity = unpacked_tensor(bits.view(), c.device(), b, on);
        }
    }
    if (v.type().id == type_id::boolean) {
        staged_bits const bits{v, 1, b, on, api, where};
        out.data = unpacked_tensor(bits.view(), c.device(), b, on);
    } else {
        auto const* const begin =
            length == 0 ? nullptr : static_cast<std::byte const*>(v.buffers()[1].data) + v.offset() * (type.bits / 8);
        out.data =
            make_managed(column{c}, tensor_view{static_cast<void const*>(begin), type, {&length, 1}, {}, c.device()});
    }
    return out;
}

}  // namespace detail

/// Exports a column of numbers as DLPack tensors of one dimension: integers, floats including float16, and dates,
/// times, timestamps and durations as their integers. NaN is not null.
///
/// The data is shared, read-only, and starts at the offset of a slice. Booleans, and the validity of a column with
/// nulls, are unpacked into one byte for each item: copies with the flag is_copied on the device of the column. In
/// device memory they are unpacked by the host, which waits for the bits; the tensor is complete when `on` has run the
/// queued copy.
///
/// Source: section "DLPack" of the Arrow specification, which defines the data but not the validity.
///
/// \param c      column; the tensors share its memory
/// \param b      back end that copies bits of device memory
/// \param on     stream on which the column is ready
/// \param where  source location of the caller
/// \throws error           errc::dtype: strings, decimals, intervals, dictionaries and nested columns;  no_backend: the
///                         back end does not reach the device;  an error of the back end
/// \throws std::bad_alloc  when an allocation fails
template <class Column, class BackEnd = host_back_end const&>
    requires(std::same_as<std::remove_cvref_t<Column>, column> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] column_tensors to_dlpack(Column&& c, BackEnd&& b = host_only, stream_token on = {},
                                       std::source_location where = std::source_location::current()) {
    return detail::tensors_of(c, b, on.on_device(c.device()), false, "ferry::to_dlpack", where);
}

/// Exports the data of a column without nulls as a tensor; see to_dlpack.
///
/// \param c      column; the tensor shares its memory
/// \param b      back end that copies bits of device memory
/// \param on     stream on which the column is ready
/// \param where  source location of the caller
/// \throws error           errc::dtype: the column has nulls;  as to_dlpack
/// \throws std::bad_alloc  when an allocation fails
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor to_tensor(column const& c, BackEnd&& b = host_only, stream_token on = {},
                                       std::source_location where = std::source_location::current()) {
    return detail::tensors_of(c, b, on.on_device(c.device()), true, "ferry::to_tensor", where).data;
}

}  // namespace ferry::inline v0
