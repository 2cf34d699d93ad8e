// ferry: imports and exports arrays through `__cuda_array_interface__`. Requires Python and CUDA.
#pragma once

#include <ferry/python/detail/array_interface.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/install.hpp>
#include <ferry/python/object.hpp>
#include <ferry/python/unwrap.hpp>

#include <ferry/cuda/facts.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <optional>

namespace FERRY_NAMESPACE::python {
namespace detail {

/// Returns the current CUDA device.
/// \throws error  errc::no_driver, or an error of the driver
[[nodiscard]] inline device current_device() {
    int id = 0;
    cuda::check(cudaGetDevice(&id), "cudaGetDevice");
    return {device_type::cuda, id};
}

}  // namespace detail

/// Imports an object with `__cuda_array_interface__`, of any version. The tensor shares the memory and keeps the object
/// alive. CUDA is queried for the device of the address, so managed and pinned memory keep their device types; an array
/// without elements is on the current device. Does not copy or synchronise. Requires the GIL.
///
/// \param x  Python object; borrowed
/// \return   the tensor and the stream on which it is ready; std::nullopt if the object has no such attribute
/// \throws error_is_set  BufferError: a mask, big-endian elements (R20), a type without a DLPack data type (R16), or
///                       strides that are not multiples of the element size (R30);  ValueError: a malformed interface;
///                       an exception raised by the attribute
/// \throws error         errc::foreign_pointer: not CUDA memory;  device: memory of a context that is not the primary
///                       context of its device;  no_driver: no CUDA driver;  errors of CUDA and of make_managed
/// \throws std::bad_alloc  when an allocation fails
[[nodiscard]] inline std::optional<detail::imported> from_cuda_array_interface(PyObject* x) {
    auto const array = detail::read_array_interface(x);
    if (!array) return {};
    if (array->mask)
        raise(PyExc_BufferError, "__cuda_array_interface__",
              ": the array has a mask, which DLPack cannot represent: apply the mask, or "
              "import the array as a column");
    bool const has_elements = array->first != nullptr && !array->is_empty();
    device const dev = has_elements ? cuda::device_of_pointer(array->first) : detail::current_device();
    if (dev.type == device_type::cpu)
        ferry::detail::fail(
            errc::foreign_pointer, "__cuda_array_interface__",
            message{
                "the address is not in CUDA memory, expected device, managed or pinned memory: correct the address "
                "in the "
                "producer"});
    return detail::imported{make_managed(owned_object::share(x), array->view(dev)), array->ready.on_device(dev)};
}

namespace detail {

template <class T, class Unwrap>
struct FERRY_HIDDEN cuda_interface_of {
    static PyObject* get(PyObject* self, void*) noexcept {
        return guarded([&] {
            array_in<T, Unwrap> array{self};
            return describe_for_cuda(*array);
        });
    }
    static inline PyGetSetDef property{"__cuda_array_interface__", &get, nullptr,
                                       PyDoc_STR("The CUDA array interface, version 3. Only for data on CUDA devices."),
                                       nullptr};
};

}  // namespace detail

/// Adds the property `__cuda_array_interface__`, version 3, to a Python type. The entry `stream` is the stream of
/// array_traits::ready_on, or None if no work is pending. If ready_on returns an event, the entry is the default
/// stream, which waits for the event. The data is read-only if the view is (R11), or if a stride of 0 repeats elements
/// (R29). For memory that is neither CUDA device memory nor managed memory, and for data types that typestr cannot
/// represent, the property raises an AttributeError, so that hasattr returns False.
///
/// Requires the GIL. Call this function during the initialisation of the module.
///
/// \tparam T       array type with array_traits<T>::view
/// \param type    mutable heap type
/// \param unwrap  captureless lambda: `unwrap(PyObject*)` returns the T in an object; see `unwraps`
/// \return        true on success; otherwise false with a Python error set
template <class T, class Unwrap>
[[nodiscard]] bool install_cuda_array_interface(PyTypeObject* type, [[maybe_unused]] Unwrap unwrap) noexcept {
    static_assert(detail::is_unwrap<T, Unwrap>());
    return detail::set_attribute(type, "__cuda_array_interface__",
                                 PyDescr_NewGetSet(type, &detail::cuda_interface_of<T, Unwrap>::property));
}

}  // namespace FERRY_NAMESPACE::python
