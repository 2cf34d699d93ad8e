// ferry: exports of columns as DLPack tensors.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/result.hpp>
#include <ferry/column/column.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/tensor/managed.hpp>

#include <concepts>
#include <optional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE {

/// The tensors of a column. Each of them owns its memory.
struct column_tensors {
    managed_tensor data;                       ///< one element for each item; unspecified for nulls
    std::optional<managed_tensor> validity{};  ///< bool, false for nulls; empty if there are no nulls
};

namespace detail {

/// Implements to_dlpack and to_tensor; returns any tensors after an error.
[[nodiscard]] FERRY_INLINE column_tensors tensors_of(column const& c, back_end_ref b, stream_token on, bool is_alone,
                                                     reporter r);

}  // namespace detail

/// Exports a column of numbers as DLPack tensors: integers, floats including float16, and dates, times, timestamps and
/// durations as their integers. NaN is not null. The tensor has one dimension and, for fixed-size lists, one more for
/// each level. For the extension type arrow.fixed_shape_tensor, it has the dimensions of the shape instead, in the
/// order of the permutation.
///
/// The data is shared, read-only, and starts at the offset of a slice. Booleans, and the validity of a column with
/// nulls, are unpacked into one byte for each item, in copies with the flag is_copied on the device of the column. The
/// host unpacks bits of device memory, for which it waits; the tensor is complete when the copy queued on `on` has
/// completed.
///
/// Source: section "DLPack" of the Arrow specification, which defines the data but not the validity.
///
/// \param c      column; the tensors share its memory
/// \param b      back end that copies bits of device memory
/// \param on     stream on which the column is ready
/// \return       tensors; `try_to_dlpack` returns the tensors or the error
/// \throws error           errc::dtype: strings, decimals, intervals with days, dictionaries, nested columns other than
///                         fixed-size lists, and lists with nulls at any level;  bad_column: an invalid shape in the
///                         metadata of the extension type;  stream: a null stream, or one of another device;
///                         no_backend: the back end does not reach the device;  an error of the back end
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

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/column/detail/dlpack.ipp>
#endif
