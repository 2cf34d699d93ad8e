// ferry: `__cuda_array_interface__` v3, both ways: the join of Python and CUDA.
#pragma once

#include <ferry/python/array_interface.hpp>
#include <ferry/python/error.hpp>
#include <ferry/python/import.hpp>
#include <ferry/python/install.hpp>
#include <ferry/python/object.hpp>

#include <ferry/cuda/facts.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <cstdint>
#include <cstdio>
#include <optional>

namespace ferry::inline v0::python {
namespace detail {

[[nodiscard]] inline device current_device() {
    int id = 0;
    cuda::check(cudaGetDevice(&id), "cudaGetDevice");
    return {device_type::cuda, id};
}

}  // namespace detail

/// Imports an object with `__cuda_array_interface__`, of any version; nothing when it has none. The object is kept
/// alive as the owner. The device is where the driver says that the pointer is: managed and pinned memory arrive as
/// such. Neither copies nor synchronises: what comes with the tensor says where it is ready.
///
/// \throws error_is_set  BufferError for a mask, other byte order (R20), types without a DLPack name, strides within
///                       elements (R30); ValueError for what is malformed;  error  errc::foreign_pointer, no_driver,
///                       what `validate` finds
[[nodiscard]] inline std::optional<detail::imported> from_cuda_array_interface(PyObject* x) {
    auto const facts = detail::read_array_facts(x);
    if (!facts) return {};
    if (facts->mask)
        raise(
            PyExc_BufferError,
            "__cuda_array_interface__: masked elements cannot travel by DLPack: apply the mask first, or import a column");
    bool const has_elements = facts->first != nullptr && !facts->is_empty();
    device const dev = has_elements ? cuda::device_of_pointer(facts->first) : detail::current_device();
    if (dev.type == device_type::cpu)
        ferry::detail::fail(errc::foreign_pointer, "__cuda_array_interface__",
                            message{"CUDA does not know the pointer: the memory is the host's own"});
    return detail::imported{make_managed(owned_object::share(x), facts->view(dev)), facts->ready.on_device(dev)};
}

namespace detail {

/// The interface of an array, as a new dict; null with a Python error set.
template <class T>
[[nodiscard]] PyObject* describe_for_cuda(T& array) {
    tensor_view const v = view_of(array);
    char const letter = letter_of(v.dtype());
    if (v.device().type != device_type::cuda && v.device().type != device_type::cuda_managed)
        raise(PyExc_AttributeError, "__cuda_array_interface__: the elements are not on a CUDA device");
    if (letter == 0)
        raise(PyExc_AttributeError, "__cuda_array_interface__ has no name for the data type: use __dlpack__");
    int const bytes = v.dtype().bits / 8;
    char typestr[8];
    std::snprintf(typestr, sizeof typestr, "%c%c%d", bytes == 1 ? '|' : '<', letter, bytes);
    reference const shape{tuple_of(v.rank(), [&](int i) { return v.extent(i); })};
    reference const strides{v.is_contiguous() ? Py_BuildValue("")
                                              : tuple_of(v.rank(), [&](int i) { return v.stride(i) * bytes; })};
    stream_token const ready = ferry::detail::ready_on(array).on_device(v.device());
    reference const stream{entry_of(ready)};
    if (!shape || !strides || !stream) return nullptr;
    auto const address = v.is_empty() ? 0 : reinterpret_cast<std::uintptr_t>(v.data()) + v.byte_offset();
    return Py_BuildValue("{s:i,s:O,s:s,s:[(ss)],s:O,s:(KO),s:O}", "version", 3, "shape", shape.get(), "typestr",
                         typestr, "descr", "", typestr, "strides", strides.get(), "data",
                         static_cast<unsigned long long>(address), v.is_read_only() ? Py_True : Py_False, "stream",
                         stream.get());
}

template <class T, class Unwrap>
struct FERRY_HIDDEN cuda_interface_of {
    static PyObject* get(PyObject* self, void*) noexcept {
        try {
            T* const array = Unwrap{}(self);
            if (array == nullptr)
                raise(PyExc_TypeError, "the object is not of the type that this property was installed on");
            return describe_for_cuda(*array);
        } catch (...) {
            translate_exception();
            return nullptr;
        }
    }
    static inline PyGetSetDef property{"__cuda_array_interface__", &get, nullptr,
                                       PyDoc_STR("The CUDA array interface, version 3; only on CUDA devices."),
                                       nullptr};
};

}  // namespace detail

/// Gives `type` the property `__cuda_array_interface__`, version 3: the elements as they are, `stream` where
/// array_traits::ready_on says that they are ready, None when nothing is pending. An AttributeError, so that hasattr is
/// false, for memory of other kinds than CUDA and managed, and for types that it cannot name. The arguments, and what
/// happens on failure, are those of install_dlpack.
template <class T, stateless Unwrap>
[[nodiscard]] bool install_cuda_array_interface(PyTypeObject* type, Unwrap) noexcept {
    return detail::set_attribute(type, "__cuda_array_interface__",
                                 PyDescr_NewGetSet(type, &detail::cuda_interface_of<T, Unwrap>::property));
}

}  // namespace ferry::inline v0::python
