// ferry: imports and exports columns through `__cuda_array_interface__`, with validity as the mask. Independent of the
// CUDA headers: the caller passes a function that returns the device of an address.
#pragma once

#include <ferry/python/detail/array_interface.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/base/detail/check_stream.hpp>
#include <ferry/column/column.hpp>
#include <ferry/column/from_tensors.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>  // shared ownership of the buffers
#include <optional>
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE::python::detail {

/// The owner of a column with a mask of bits.
struct masked_owner {
    managed_tensor data;
    owned_object mask;
};

/// Orders the work that is queued on `ready` before later work on `on`, or waits for it if `on` names no stream.
inline void order_or_wait(stream_token ready, stream_token on, back_end_ref b, ferry::detail::reporter r) {
    static_cast<void>(on.names_stream() ? ferry::detail::order_streams(ready, on, b, r)
                                        : ferry::detail::wait_for(b, ready, r));
}

/// Imports an object with `__cuda_array_interface__` as a column, of several dimensions as from_tensors does; returns
/// std::nullopt if the object has none. The column keeps the object alive.
///
/// The mask becomes the validity. A mask of bits ("<t1", with Arrow's bit order and meaning) is shared, and its nulls
/// are not counted; a mask of bools or bytes is packed into bits. Elements are shared or copied as in from_tensors.
/// `device_of(pointer)` returns the device of an address. Work that is pending on the streams of the array and the mask
/// is ordered before `on`, or waited for if `on` names no stream.
/// \throws error_is_set  errors of read_array_interface;  BufferError: a mask that has a mask, a mask of another type,
///                       or a mask of bits for bools
/// \throws error         errors of from_tensors and device_of;  errc::rank: a mask, and not one dimension;
///                       shape, device: a mask of another shape or on another device
template <class DeviceOf>
[[nodiscard]] std::optional<column> column_of_array(PyObject* x, DeviceOf device_of, back_end_ref b, stream_token on,
                                                    std::source_location where = std::source_location::current()) {
    constexpr auto api = "__cuda_array_interface__";
    auto const array = read_array_interface(x);
    if (!array) return {};
    auto const device_of_array = [&](array_interface const& a, device otherwise) {
        return a.first != nullptr && !a.is_empty() ? device{device_of(a.first)} : otherwise;
    };
    device const dev = device_of_array(*array, cpu);
    static_cast<void>(ferry::detail::check_stream(on, dev, {api, where}));
    on = on.on_device(dev);
    auto const tensor_of = [dev](PyObject* owner, array_interface const& a) {
        return make_managed(owned_object::share(owner), a.view(dev));
    };
    if (!array->mask) {
        order_or_wait(array->ready.on_device(dev), on, b, {api, where});
        return from_tensors(tensor_of(x, *array), {}, b, on, tensor_items::lists, where);
    }
    auto mask = read_array_interface(array->mask.get(), true);
    if (!mask) raise(PyExc_ValueError, "__cuda_array_interface__", ": the mask has no __cuda_array_interface__");
    if (mask->mask)
        raise(PyExc_BufferError, "__cuda_array_interface__", ": the mask has a mask: combine the two masks");
    device const mask_device = device_of_array(*mask, dev);
    if (array->shape.size() != 1)
        ferry::detail::fail(errc::rank, api,
                            message{"expected 1 dimension for elements with a mask, got "}
                                << std::uint64_t{array->shape.size()} << ": reshape the array",
                            where);
    if (mask->shape != array->shape)
        ferry::detail::fail(
            errc::shape, api,
            message{"the shape of the mask differs from that of the elements: pass a mask with a flag for each "
                    "element"},
            where);
    if (!is_same_device(mask_device, dev))
        ferry::detail::fail(errc::device, api,
                            message{"the elements and the mask are on different devices: copy the mask to the device "
                                    "of the elements"},
                            where);
    bool const are_bits = mask->type.bits == 1;
    if (mask->type == dtype_of<std::int8_t>) mask->type = dtype_of<std::uint8_t>;  // a flag is any value other than 0
    if (!are_bits && mask->type != dtype_of<bool> && mask->type != dtype_of<std::uint8_t>)
        raise(PyExc_BufferError, "__cuda_array_interface__",
              ": the mask has an unsupported type: expected bits ('<t1'), bools ('|b1') or "
              "bytes ('|u1'): pass mask != 0");
    order_or_wait(array->ready.on_device(dev), on, b, {api, where});
    order_or_wait(mask->ready.on_device(dev), on, b, {api, where});
    if (!are_bits)
        return from_tensors(tensor_of(x, *array), tensor_of(array->mask.get(), *mask), b, on, tensor_items::lists,
                            where);
    if (array->type.code == type_code::bool_)
        raise(PyExc_BufferError, "__cuda_array_interface__",
              ": the mask of an array of bools consists of bits ('<t1'): expected bools "
              "('|b1') or bytes ('|u1'): unpack the mask");
    auto const format = ferry::detail::format_of(array->type);
    if (format.empty())
        return from_tensors(tensor_of(x, *array), {}, b, on, tensor_items::lists, where);  // reports the data type
    auto const length = array->shape[0];
    if (length != 0 && mask->first == nullptr)
        ferry::detail::fail(errc::null_data, api,
                            message{"the address of a mask with "}
                                << length << " flags is null (R26): correct the mask in the producer",
                            where);
    auto owner = std::make_shared<masked_owner>(masked_owner{
        ferry::detail::contiguous(tensor_of(x, *array), b, on, {api, where}), owned_object::share(array->mask.get())});
    column_buffer buffers[] = {{length != 0 ? mask->first : nullptr, length != 0 ? bitmap_bytes(length) : 0},
                               {owner->data.view().data(), length * (array->type.bits / 8)}};
    return make_column({.format = format, .length = length, .null_count = length != 0 ? -1 : 0, .buffers = buffers},
                       std::move(owner), dev, where);
}

/// Returns a new dict, the `__cuda_array_interface__` of a read-only array; on failure null, with a Python error set.
/// `mask` is borrowed and may be null.
[[nodiscard]] inline PyObject* interface_dict(std::int64_t length, char const* typestr, void const* first,
                                              stream_token ready, PyObject* mask) {
    reference const stream{stream_entry(ready)};
    if (!stream) return nullptr;
    return Py_BuildValue("{s:i,s:(L),s:s,s:[(ss)],s:O,s:(KO),s:O,s:O}", "version", 3, "shape",
                         static_cast<long long>(length), "typestr", typestr, "descr", "", typestr, "strides", Py_None,
                         "data", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(first)), Py_True,
                         "stream", stream.get(), "mask", mask != nullptr ? mask : Py_None);
}

/// Returns a new dict, the `__cuda_array_interface__` of a column of numbers; on failure null, with a Python error set.
/// The data is read-only. If the column may have nulls, the dict has a mask: an object that exposes the validity bits
/// and keeps `owner`, the Python object of the column, alive.
/// \throws error_is_set  AttributeError: not a column of numbers, or a slice whose validity does not start at a byte
///                       boundary
/// \throws error         errc::stream: `ready` is null, or a stream of another device;  errors of stream_entry
[[nodiscard]] inline PyObject* describe_column(column_view c, stream_token ready, PyObject* owner) {
    require_main_interpreter();
    static_cast<void>(
        ferry::detail::check_stream(ready, c.device(), {"__cuda_array_interface__", std::source_location::current()}));
    std::optional<data_type> type;
    for (auto const& [format, known] :
         std::initializer_list<std::pair<char, data_type>>{{'c', dtype_of<std::int8_t>},
                                                           {'C', dtype_of<std::uint8_t>},
                                                           {'s', dtype_of<std::int16_t>},
                                                           {'S', dtype_of<std::uint16_t>},
                                                           {'i', dtype_of<std::int32_t>},
                                                           {'I', dtype_of<std::uint32_t>},
                                                           {'l', dtype_of<std::int64_t>},
                                                           {'L', dtype_of<std::uint64_t>},
                                                           {'e', data_type{type_code::float_, 16}},
                                                           {'f', dtype_of<float>},
                                                           {'g', dtype_of<double>}})
        if (c.format().size() == 1 && c.format()[0] == format) type = known;
    if (!type || c.has_dictionary())
        raise(PyExc_AttributeError, "__cuda_array_interface__",
              ": expected a column of numbers without a dictionary: convert the column");
    int const bytes = type->bits / 8;
    char typestr[8];
    std::snprintf(typestr, sizeof typestr, "%c%c%d", bytes == 1 ? '|' : '<', letter_of(*type), bytes);
    reference mask;
    if (!c.is_without_nulls()) {
        if (c.offset() % 8 != 0)
            raise(PyExc_AttributeError, "__cuda_array_interface__",
                  ": the validity of this slice begins within a byte: expected an offset that "
                  "is a multiple of 8: compact the column");
        reference const bits{interface_dict(
            c.length(), "<t1", static_cast<char const*>(c.buffers()[0].data) + c.offset() / 8, ready, nullptr)};
        reference const types{PyImport_ImportModule("types")};
        reference const kind{types ? PyObject_GetAttrString(types.get(), "SimpleNamespace") : nullptr};
        reference const none{PyTuple_New(0)};
        reference const members{
            bits ? Py_BuildValue("{s:O,s:O}", "__cuda_array_interface__", bits.get(), "column", owner) : nullptr};
        if (kind && none && members) mask = reference{PyObject_Call(kind.get(), none.get(), members.get())};
        if (!mask) return nullptr;
    }
    auto const* const first =
        c.length() != 0 ? static_cast<char const*>(c.buffers()[1].data) + c.offset() * bytes : nullptr;
    return interface_dict(c.length(), typestr, first, ready, mask.get());
}

}  // namespace FERRY_NAMESPACE::python::detail
