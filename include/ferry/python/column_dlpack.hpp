// ferry: `__dlpack__` of columns: numbers without nulls.
#pragma once

#include <ferry/python/back_end.hpp>
#include <ferry/python/capsule.hpp>
#include <ferry/python/export.hpp>

#include <ferry/column/column.hpp>
#include <ferry/column/detail/copy_bits.hpp>
#include <ferry/column/dtype.hpp>
#include <ferry/column/type.hpp>
#include <ferry/column/view.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>

namespace ferry {
namespace python::detail {

/// The numbers of a column, as an array: what holds the memory, and a handle to share it by.
struct column_numbers {
    std::shared_ptr<void const> owner{};
    void const* first = nullptr;
    data_type type{};
    std::int64_t length = 0;
    device where = cpu;
    bool is_fresh = false;  ///< nobody else has the memory
};

}  // namespace python::detail

template <>
struct array_traits<python::detail::column_numbers> {
    static tensor_view view(python::detail::column_numbers const& n) {
        if (n.is_fresh) return {const_cast<void*>(n.first), n.type, {&n.length, 1}, {}, n.where};
        return {n.first, n.type, {&n.length, 1}, {}, n.where};
    }
    static python::detail::column_numbers share(python::detail::column_numbers const& n) { return n; }
};

namespace python::detail {

/// \throws error  errc::dtype: the column holds no numbers, or nulls
[[nodiscard]] inline data_type type_of_numbers(column_view c, char const* api, std::source_location where) {
    auto const type = c.type().id == type_id::boolean ? std::optional{dtype_of<bool>} : data_type_of(c.type());
    if (!type || c.has_dictionary())
        ferry::detail::fail(errc::dtype, api, message{"a column of type "} << c.name_of_format().c_str() << (c.has_dictionary() ? " with a dictionary" : "")
                                << " is no row of numbers: only booleans, integers, floats, dates, times and durations are", where);
    if (auto const nulls = c.null_count(where); nulls > 0)
        ferry::detail::fail(errc::dtype, api, message{"the column has "} << nulls << " nulls, for which tensors have no word: fill or drop them first", where);
    return *type;
}

/// A byte for each bit. \throws error  errc::not_accessible
[[nodiscard]] inline column_numbers unpacked(column_view c, char const* api, std::source_location where) {
    c.require_host(api, where);
    auto const length = c.length();
    auto bytes = std::make_shared_for_overwrite<unsigned char[]>(static_cast<std::size_t>(length));
    if (length != 0) ferry::detail::unpack_bits({c.buffers()[1].data, c.offset(), length}, bytes.get());
    return {bytes, bytes.get(), dtype_of<bool>, length, cpu, true};
}

/// Exports a column under a request as a new capsule: numbers and times without nulls are shared, read-only; bits are unpacked
/// into a copy. Nobody gets nulls as numbers in silence.
template <class BackEnd>
[[nodiscard]] PyObject* export_column_capsule(column const& c, export_arguments const& given, BackEnd& b) {
    constexpr auto api = "__dlpack__";
    auto const where = std::source_location::current();
    auto wish = to_request(read(given), c.device());
    auto const type = type_of_numbers(c.view(), api, where);
    bool const is_fresh = c.type().id == type_id::boolean;
    column_numbers numbers{.owner = c.owner(), .type = type, .length = c.length(), .where = c.device()};
    if (is_fresh) {
        if (wish.copy == copy_policy::never)
            ferry::detail::fail(errc::copy_needed, api, message{"the booleans of a column are bits, those of a tensor bytes, and copy=False forbids to unpack them"}, where);
        wish.copy = copy_policy::if_needed;
        numbers = unpacked(c.view(), api, where);
    } else if (c.length() != 0) {
        numbers.first = static_cast<std::byte const*>(c.view().buffers()[1].data) + c.offset() * (type.bits / 8);
    }
    tensor_view const v = view_of(std::as_const(numbers));
    auto d = negotiate(ferry::detail::facts_of(v, already_ready, true), wish);
    yielding patient{b};
    if (d.stamp.is_legacy() && d.act != action::refuse)
        return make_capsule(ferry::detail::export_array<DLManagedTensor>(std::as_const(numbers), d, v, already_ready, patient, api, where));
    if (is_fresh) d.bits = d.bits | flags::is_copied;
    return make_capsule(ferry::detail::export_array<DLManagedTensorVersioned>(std::as_const(numbers), d, v, already_ready, patient, api, where));
}

}  // namespace python::detail
}  // namespace ferry
