// ferry: imports and exports columns in CUDA memory through `__cuda_array_interface__`, with validity as the mask.
#pragma once

#include <ferry/python/cuda_array_interface.hpp>
#include <ferry/python/detail/column_array_interface.hpp>
#include <ferry/python/install.hpp>
#include <ferry/python/unwrap.hpp>

#include <ferry/cuda/facts.hpp>

#include <optional>
#include <type_traits>

namespace FERRY_NAMESPACE::python {

/// Imports an object with a one-dimensional `__cuda_array_interface__`, of any version, as a column. The column keeps
/// the object alive. The mask becomes the validity: a mask of bits ("<t1", as cuDF provides it) is shared; a mask of
/// bools or bytes is packed into bits. Elements that are not contiguous are copied, and bools are packed into bits.
/// Requires the GIL.
///
/// \param x   Python object; borrowed
/// \param b   back end that orders, waits and copies
/// \param on  stream on which the column will be read; its later work is ordered after the pending work of the array
///            and of its mask. Without a stream, the function waits for the pending work
/// \return    the column; std::nullopt if the object has no `__cuda_array_interface__`
/// \throws error_is_set  BufferError: big-endian elements, a type without a DLPack data type, strides that are not
///                       multiples of the element size, a mask of an unsupported type, a mask of bits for an array of
///                       bools, or a mask that has a mask;  ValueError: a malformed interface;  an exception raised by
///                       the attribute
/// \throws error         errc::rank or dtype: not a one-dimensional array of numbers or bools;  shape: the mask does
///                       not have one flag for each element;  device: the mask is on another device;  null_data: a null
///                       address;  foreign_pointer: not CUDA memory;  no_driver: no CUDA driver;  no_backend: the back
///                       end does not reach the device;  errors of CUDA and of the back end
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline std::optional<column> column_from_cuda_array_interface(PyObject* x, back_end_ref b,
                                                                            stream_token on = {}) {
    auto const device_of = [](void const* first) {
        device const dev = cuda::device_of_pointer(first);
        if (dev.type == device_type::cpu)
            ferry::detail::fail(errc::foreign_pointer, "__cuda_array_interface__",
                                message{"the address is not in CUDA memory, expected device, managed or pinned "
                                        "memory: correct the address in the producer"});
        return dev;
    };
    return detail::column_of_array(x, device_of, b, on);
}

namespace detail {

template <class Unwrap, class ReadyOn>
struct FERRY_HIDDEN cuda_interface_of_column {
    static PyObject* get(PyObject* self, void*) noexcept {
        return guarded([&] {
            array_in<column const, Unwrap> held{self};
            column const& c = *held;
            if (c.device().type != device_type::cuda && c.device().type != device_type::cuda_managed)
                raise(PyExc_AttributeError, "__cuda_array_interface__",
                      ": the column is not on a CUDA device: use Arrow's methods");
            return describe_column(c.view(), stream_token{ReadyOn{}(c)}.on_device(c.device()), self);
        });
    }
    static inline PyGetSetDef property{
        "__cuda_array_interface__", &get, nullptr,
        PyDoc_STR("The CUDA array interface, version 3, with validity as the mask. Only for numbers on CUDA devices."),
        nullptr};
};

}  // namespace detail

/// Adds the property `__cuda_array_interface__`, version 3, to a Python type that holds a column, with validity as a
/// mask of bits ("<t1"). The property raises an AttributeError, so that hasattr returns False, for columns that do not
/// hold numbers in CUDA device or managed memory, and for slices whose validity does not start at a byte boundary.
///
/// Requires the GIL. Call this function during the initialisation of the module.
///
/// \param type      mutable heap type
/// \param unwrap    captureless lambda: `unwrap(PyObject*)` returns the column in an object; see `unwraps`
/// \param ready_on  captureless lambda: `ready_on(column const&)` returns the stream on which the column is ready
/// \return          true on success; otherwise false with a Python error set
template <class Unwrap, stateless ReadyOn>
[[nodiscard]] bool install_column_cuda_array_interface(PyTypeObject* type, [[maybe_unused]] Unwrap unwrap,
                                                       [[maybe_unused]] ReadyOn ready_on) noexcept {
    static_assert(detail::is_unwrap<column const, Unwrap>());
    return detail::set_attribute(type, "__cuda_array_interface__",
                                 PyDescr_NewGetSet(type, &detail::cuda_interface_of_column<Unwrap, ReadyOn>::property));
}

}  // namespace FERRY_NAMESPACE::python
