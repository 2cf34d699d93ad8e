// ferry: columns as tensors, and tensors as columns.
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
#include <memory>  // a column shares what it is made of
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {

/// A column as tensors, each of which keeps what it needs alive alone.
struct column_tensors {
    managed_tensor data;                       ///< one element for each item; where an item is null: whatever is there
    std::optional<managed_tensor> validity{};  ///< bool: false where it is null; nothing when no item is
};

namespace detail {

/// \throws error  errc::dtype
[[nodiscard]] inline data_type tensor_type_of(column_view c, char const* api, std::source_location where) {
    auto const type = c.type().id == type_id::boolean ? std::optional{dtype_of<bool>} : data_type_of(c.type());
    if (c.has_dictionary())
        fail(
            errc::dtype, api,
            message{
                "the column is dictionary-encoded, and its numbers mean nothing without the dictionary: export dictionary() beside a column of the indices"},
            where);
    if (type) return *type;
    char const* const why = c.type().id == type_id::decimal ? "decimals have no DLPack type"
                            : c.child_count() > 0           ? "it is nested: export its children"
                            : c.layout().buffer_count > 2 || is_view(c.type().id)
                                ? "its items differ in length: export them over Arrow's interfaces"
                                : "its items are no numbers of DLPack's";
    fail(errc::dtype, api, message{"a column of format "} << c.name_of_format().c_str() << " is no tensor: " << why,
         where);
}

/// A byte for each bit, in memory of its own where the column is.
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
                        << " nulls, and a tensor alone has no word for them: ferry::to_dlpack(column) gives data and validity",
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

/// A column of numbers as DLPack tensors of one dimension: integers, floats with float16, and dates, times, timestamps
/// and durations as the integers that they are stored as; a null is not a NaN, which stays what it is.
///
/// Data is shared where it lies, read-only, with what a slice's offset makes of it. Bools are unpacked into a byte
/// each, and so is the validity, which is there when an item is null: copies, flagged is_copied, on the column's
/// device. Off the host bits take a back end and a stream on which the column is ready: they are unpacked by the host,
/// which waits for them; a tensor on a device is there once `on` got so far.
///
/// The tensors own what they need; the column stays the caller's. Source: section "DLPack" of the Arrow specification,
/// which has the data alone.
/// \throws error  errc::dtype: strings, decimals, intervals, dictionaries, nested columns; no_backend; what the back
///                end reports;  std::bad_alloc
template <class Column, class BackEnd = host_back_end const&>
    requires(std::same_as<std::remove_cvref_t<Column>, column> && back_end<std::remove_reference_t<BackEnd>>)
[[nodiscard]] column_tensors to_dlpack(Column&& c, BackEnd&& b = host_only, stream_token on = {},
                                       std::source_location where = std::source_location::current()) {
    return detail::tensors_of(c, b, on.on_device(c.device()), false, "ferry::to_dlpack", where);
}

/// The data alone, for those who have no place for a validity: a column with nulls is refused.
/// \throws error  errc::dtype: it has nulls; and as to_dlpack
template <class BackEnd = host_back_end const&>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] managed_tensor to_tensor(column const& c, BackEnd&& b = host_only, stream_token on = {},
                                       std::source_location where = std::source_location::current()) {
    return detail::tensors_of(c, b, on.on_device(c.device()), true, "ferry::to_tensor", where).data;
}

}  // namespace ferry::inline v0
