// ferry: columns and `__cuda_array_interface__`: its mask is a column's validity. Knows nothing of CUDA: whoever calls
// says where an address is.
#pragma once

#include <ferry/python/array_interface.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/object.hpp>

#include <ferry/column/column.hpp>
#include <ferry/column/from_tensors.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>  // a column shares what it is made of
#include <optional>
#include <source_location>
#include <utility>

namespace ferry::inline v0::python::detail {

/// What a column with a mask of bits keeps.
struct masked_owner {
    managed_tensor data;
    owned_object mask;
};

/// Work that is queued on `ready` comes before what `on` runs later; without a stream it has run.
template <class BackEnd>
void settle(stream_token ready, stream_token on, BackEnd& b) {
    if (!ready.names_stream() || ready == on) return;
    if (on.names_stream()) b.order(ready, on);
    else b.wait(ready);
}

/// A column of an object with `__cuda_array_interface__` of one dimension; nothing when it has none. The object is the
/// owner.
///
/// The mask becomes validity. Of bits ("<t1": the lowest of a byte first, set where an item is valid, as Arrow has
/// them) it is shared, and nobody counts the nulls; of bools and bytes it is packed into bits. Numbers that lie side by
/// side are shared, others copied, as from_tensors does it. `place_of(pointer)` gives the device of an address. What is
/// pending on the streams of both is ordered before `on`, or waited for without one.
///
/// \throws error_is_set  as read_array_facts; BufferError: a mask with a mask, of another type, or of bits for bools
///         error         as from_tensors; shape, device: of the mask; what place_of throws
template <class PlaceOf, class BackEnd>
[[nodiscard]] std::optional<column> column_of_array(PyObject* x, PlaceOf place_of, BackEnd& b, stream_token on,
                                                    std::source_location where = std::source_location::current()) {
    constexpr auto api = "__cuda_array_interface__";
    auto const facts = read_array_facts(x);
    if (!facts) return {};
    auto const place_of_array = [&](array_facts const& f, device otherwise) {
        return f.first != nullptr && !f.is_empty() ? device{place_of(f.first)} : otherwise;
    };
    device const place = place_of_array(*facts, cpu);
    on = on.on_device(place);
    auto const tensor_of = [](PyObject* owner, array_facts const& f, device at) {
        return make_managed(owned_object::share(owner), f.view(at));
    };
    if (!facts->mask) {
        settle(facts->ready.on_device(place), on, b);
        return from_tensors(tensor_of(x, *facts, place), {}, b, on, where);
    }
    auto mask = read_array_facts(facts->mask.get(), true);
    if (!mask) raise(PyExc_ValueError, "__cuda_array_interface__: the mask has no __cuda_array_interface__ of its own");
    if (mask->mask) raise(PyExc_BufferError, "__cuda_array_interface__: the mask has a mask");
    device const mask_place = place_of_array(*mask, place);
    if (facts->shape.size() == 1 && mask->shape != facts->shape)
        ferry::detail::fail(errc::shape, api,
                            message{"the mask's shape is not the elements': it needs a flag for each"}, where);
    if (!is_same_device(mask_place, place))
        ferry::detail::fail(errc::device, api, message{"the elements and their mask are on different devices"}, where);
    bool const are_bits = mask->type.bits == 1;
    if (mask->type == dtype_of<std::int8_t>) mask->type = dtype_of<std::uint8_t>;  // all that counts is which are 0
    if (!are_bits && mask->type != dtype_of<bool> && mask->type != dtype_of<std::uint8_t>)
        raise(
            PyExc_BufferError,
            "__cuda_array_interface__: the mask must be of bits ('<t1'), bools ('|b1') or bytes ('|u1'): compare it with 0 first");
    settle(facts->ready.on_device(place), on, b);
    settle(mask->ready.on_device(place), on, b);
    if (!are_bits)
        return from_tensors(tensor_of(x, *facts, place), tensor_of(facts->mask.get(), *mask, place), b, on, where);
    if (facts->type.code == type_code::bool_)
        raise(
            PyExc_BufferError,
            "__cuda_array_interface__: bools are packed into a column's bits, and their mask with them: give it as bools ('|b1')");
    auto const format = ferry::detail::format_of(facts->type);
    if (facts->shape.size() != 1 || format.empty())
        return from_tensors(tensor_of(x, *facts, place), {}, b, on, where);  // which refuses it
    auto const length = facts->shape[0];
    if (length != 0 && mask->first == nullptr)
        ferry::detail::fail(errc::null_data, api,
                            message{"the mask's address is null, and its shape holds "} << length << " flags (R26)",
                            where);
    auto owner = std::make_shared<masked_owner>(
        masked_owner{ferry::detail::contiguous(tensor_of(x, *facts, place), b, on, api, where),
                     owned_object::share(facts->mask.get())});
    column_buffer buffers[] = {{length != 0 ? mask->first : nullptr, length != 0 ? bitmap_bytes(length) : 0},
                               {owner->data.view().data(), length * (facts->type.bits / 8)}};
    return make_column({.format = format, .length = length, .null_count = length != 0 ? -1 : 0, .buffers = buffers},
                       std::move(owner), place, where);
}

/// The dict of one array; null with a Python error set. Steals nothing; `mask` may be null.
[[nodiscard]] inline PyObject* interface_dict(std::int64_t length, char const* typestr, void const* first,
                                              stream_token ready, PyObject* mask) {
    reference const stream{entry_of(ready)};
    if (!stream) return nullptr;
    return Py_BuildValue("{s:i,s:(L),s:s,s:[(ss)],s:O,s:(KO),s:O,s:O}", "version", 3, "shape",
                         static_cast<long long>(length), "typestr", typestr, "descr", "", typestr, "strides", Py_None,
                         "data", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(first)), Py_True,
                         "stream", stream.get(), "mask", mask != nullptr ? mask : Py_None);
}

/// The interface of a column of numbers, as a new dict; null with a Python error set. Validity, where nulls may be, is
/// a mask of bits, an object that keeps `owner`, which is the column's own. Columns are immutable: read-only.
/// \throws error_is_set  AttributeError: columns that are no numbers, and bits that do not begin with a byte
[[nodiscard]] inline PyObject* describe_column(column_view c, stream_token ready, PyObject* owner) {
    constexpr auto no_numbers =
        "__cuda_array_interface__: only numbers without a dictionary have one: convert the column first";
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
    if (!type || c.has_dictionary()) raise(PyExc_AttributeError, no_numbers);
    int const bytes = type->bits / 8;
    char typestr[8];
    std::snprintf(typestr, sizeof typestr, "%c%c%d", bytes == 1 ? '|' : '<', letter_of(*type), bytes);
    reference mask;
    if (!c.is_without_nulls()) {
        if (c.offset() % 8 != 0)
            raise(
                PyExc_AttributeError,
                "__cuda_array_interface__: the validity of this slice begins within a byte, which an address cannot say: compact it first");
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

}  // namespace ferry::inline v0::python::detail
