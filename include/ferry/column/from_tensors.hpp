// ferry: columns from DLPack tensors.
#pragma once

#include <ferry/base/detail/reporter.hpp>
#include <ferry/base/result.hpp>
#include <ferry/column/column.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/tensor/managed.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <string_view>

namespace FERRY_NAMESPACE {

/// The type of a column from a tensor of several dimensions.
enum class tensor_items : std::uint8_t {
    lists,              ///< fixed-size lists, one level for each dimension after the first
    fixed_shape_tensor  ///< Arrow's extension type arrow.fixed_shape_tensor: its items are the tensors of the rows
};

namespace detail {

/// Returns Arrow's format of a data type; empty if there is none.
[[nodiscard]] FERRY_INLINE std::string_view format_of(data_type t) noexcept;

/// Returns the tensor if it is contiguous, otherwise a contiguous copy, which is complete on return; an empty object on
/// failure.
[[nodiscard]] FERRY_INLINE managed_tensor contiguous(managed_tensor&& t, back_end_ref b, stream_token on, reporter r);

}  // namespace detail

/// Creates a column from a tensor and an optional validity. A tensor of one dimension becomes a column of numbers. The
/// first of several dimensions is that of the rows, which become items of the type that `as` selects. Contiguous
/// numbers are shared, other numbers are copied; bools and the validity are packed into bits on their device. NaN is
/// not null.
///
/// As arrow.fixed_shape_tensor, rows whose dimensions are contiguous in another order are shared too, because the
/// extension type has a permutation.
///
/// The elements must not be written afterwards. In host memory the column is complete on return; in device memory
/// copies are complete when the work queued on `on` has completed.
///
/// \param data      tensor; owned by the column, or released on failure
/// \param validity  bool or uint8 for each row, 0 for nulls; owned by the column, or released on failure
/// \param b         back end that copies
/// \param on        stream on which both tensors are ready; without one no work may be pending
/// \param as        type of rows of several dimensions
/// \return          column; `try_from_tensors` returns the column or the error
/// \throws error           errc::consumed: an empty tensor;  rank: no dimension, or one for arrow.fixed_shape_tensor;
///                         overflow: a list of more than 2^31 - 1 items;  bad_column: more than 63 dimensions;  dtype:
///                         complex numbers, bfloat16, floats of 8 bits or less, or a validity of another type;  shape,
///                         device: of the validity; stream: a null stream, or one of another device;  no_backend: the
///                         back end does not reach the device;  an error of the back end
/// \throws std::bad_alloc  when an allocation fails
#if FERRY_HAS_EXCEPTIONS
[[nodiscard]] FERRY_INLINE column from_tensors(managed_tensor data, std::optional<managed_tensor> validity = {},
                                               back_end_ref b = host_only, stream_token on = {},
                                               tensor_items as = tensor_items::lists,
                                               std::source_location where = std::source_location::current());
#endif
[[nodiscard]] FERRY_INLINE result<column> try_from_tensors(
    managed_tensor data, std::optional<managed_tensor> validity = {}, back_end_ref b = host_only, stream_token on = {},
    tensor_items as = tensor_items::lists, std::source_location where = std::source_location::current());

}  // namespace FERRY_NAMESPACE

#if !defined(FERRY_SEPARATE_COMPILATION)
#include <ferry/column/detail/from_tensors.ipp>
#endif
