// ferry: columns in CUDA memory as `__cuda_array_interface__` v3, both ways, with validity as its mask.
#pragma once

#include <ferry/python/column_array_interface.hpp>
#include <ferry/python/cuda_array_interface.hpp>
#include <ferry/python/install.hpp>

#include <ferry/cuda/facts.hpp>

#include <optional>
#include <type_traits>

namespace ferry::inline v0::python {

/// A column of an object with `__cuda_array_interface__` of one dimension, of any version; nothing when it has none.
/// Its mask becomes validity: shared where it is of bits ("<t1", as cuDF has it), packed where it is of bools or bytes.
/// The object is kept alive.
///
/// What is pending is ordered before `on`; without a stream it has been waited for.
/// \throws error_is_set  BufferError: types, byte order, strides within elements, masks of other types; ValueError:
///                       what is malformed
///         error         errc::rank, dtype, shape, device, foreign_pointer, no_driver; no_backend;  std::bad_alloc
template <class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] std::optional<column> column_from_cuda_array_interface(PyObject* x, BackEnd&& b, stream_token on = {}) {
    auto const place_of = [](void const* first) {
        device const where = cuda::device_of_pointer(first);
        if (where.type == device_type::cpu)
            ferry::detail::fail(errc::foreign_pointer, "__cuda_array_interface__",
                                message{"CUDA does not know the pointer: the memory is the host's own"});
        return where;
    };
    return detail::column_of_array(x, place_of, b, on);
}

namespace detail {

template <class Unwrap, class ReadyOn>
struct FERRY_HIDDEN cuda_interface_of_column {
    static PyObject* get(PyObject* self, void*) noexcept {
        try {
            column const* const c = Unwrap{}(self);
            if (c == nullptr)
                raise(PyExc_TypeError, "the object is not of the type that this property was installed on");
            if (c->device().type != device_type::cuda && c->device().type != device_type::cuda_managed)
                raise(PyExc_AttributeError, "__cuda_array_interface__: the column is not on a CUDA device");
            return describe_column(c->view(), stream_token{ReadyOn{}(*c)}.on_device(c->device()), self);
        } catch (...) {
            translate_exception();
            return nullptr;
        }
    }
    static inline PyGetSetDef property{
        "__cuda_array_interface__", &get, nullptr,
        PyDoc_STR("The CUDA array interface, version 3, with validity as its mask; numbers on CUDA devices only."),
        nullptr};
};

}  // namespace detail

/// Gives a Python type of columns the property `__cuda_array_interface__`: numbers on CUDA devices and in managed
/// memory, validity as a mask of bits ("<t1"). An AttributeError, so that hasattr is false, for others.
/// `unwrap(object)` gives a `column const*`; `ready_on(column)` the stream on which it is ready: a column does not
/// know. What happens on failure is as with install_dlpack.
template <stateless Unwrap, stateless ReadyOn>
[[nodiscard]] bool install_column_cuda_array_interface(PyTypeObject* type, Unwrap, ReadyOn) noexcept {
    return detail::set_attribute(type, "__cuda_array_interface__",
                                 PyDescr_NewGetSet(type, &detail::cuda_interface_of_column<Unwrap, ReadyOn>::property));
}

}  // namespace ferry::inline v0::python
