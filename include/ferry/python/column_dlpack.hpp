// ferry: `__dlpack__` of columns of numbers, times and booleans without nulls.
#pragma once

#include <ferry/python/capsule.hpp>
#include <ferry/python/detail/back_end.hpp>
#include <ferry/python/export.hpp>

#include <ferry/column/column.hpp>
#include <ferry/column/dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/managed.hpp>

#include <memory>
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE {
namespace python::detail {

/// The numbers of a column, as a tensor that several exports share.
struct column_numbers {
    std::shared_ptr<managed_tensor const> tensor;
};

}  // namespace python::detail

template <>
struct array_traits<python::detail::column_numbers> {
    static tensor_view view(python::detail::column_numbers const& n) { return n.tensor->view(); }
    static python::detail::column_numbers share(python::detail::column_numbers const& n) { return n; }
};

namespace python::detail {

/// Exports the tensor that to_tensor returns for a column, in a new capsule. The arguments determine whether the tensor
/// is shared and read-only, or copied.
/// \throws error         errors of to_tensor and ferry::to_dlpack;  errc::copy_needed: booleans with copy=False
template <class BackEnd>
[[nodiscard]] PyObject* export_column_capsule(column const& c, converted_arguments const& asked, BackEnd& b) {
    constexpr auto api = "__dlpack__";
    auto const where = std::source_location::current();
    auto req = to_request(asked, c.device());
    gil_releasing_back_end releasing{b};
    column_numbers const numbers{std::make_shared<managed_tensor const>(to_tensor(c, releasing))};
    bool const is_copy = numbers.tensor->is_copied();
    if (is_copy && req.copy == copy_policy::never)
        ferry::detail::fail(
            errc::copy_needed, api,
            message{"booleans of a column are bits, which must be unpacked into a copy (R54): omit copy=False"}, where);
    if (is_copy) req.copy = copy_policy::if_needed;
    return export_array_capsule(numbers, view_of(numbers), req, already_ready, b,
                                is_copy ? flags::is_copied : flags::none);
}

}  // namespace python::detail
}  // namespace FERRY_NAMESPACE
