// nanobind's arrays on ferry: the handle, the buffer protocol, and the methods of nanobind.nb_ndarray.
#pragma push_macro("check")  // a macro of nb_internals.h
#undef check
#include <ferry/python/buffer.hpp>
#include <ferry/python/export.hpp>
#include <ferry/python/try_import.hpp>

#include <ferry/space/back_end.hpp>
#include <ferry/tensor/constraints.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/view.hpp>
#pragma pop_macro("check")

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

NAMESPACE_BEGIN(NB_NAMESPACE)
NAMESPACE_BEGIN(detail)

/// An array that was imported, or made in C++: the struct that ndarray.h reads, and what keeps its memory alive.
/// Modules with other versions of ferry use it through the shared type nb_ndarray: it contains no type of ferry.
struct ndarray_handle {
    ndarray_handle(dlpack::dltensor const &t, bool read_only, PyObject *owner_, PyObject *self_, DLManagedTensorVersioned *tensor = nullptr)
        : seen(t), owner(owner_), self(self_), ro(read_only), imported(tensor) {}
    ~ndarray_handle() {
        if (imported && imported->deleter)
            imported->deleter(imported);
    }

    dlpack::dltensor seen;
    std::atomic<size_t> refcount = 0;
    PyObject *owner, *self;
    bool ro;
    DLManagedTensorVersioned *imported;  // null for an array made in C++

    /// Returns the memory after a handle, for extents and strides that no other object owns.
    static int64_t *lists(ndarray_handle *th) noexcept { return reinterpret_cast<int64_t *>(th + 1); }
    ferry::tensor_view view() const noexcept {
        return {reinterpret_cast<DLTensor const &>(seen), ro ? ferry::flags::read_only : ferry::flags::none};
    }
    template <bool Versioned> PyObject *make_capsule();
};

/// A reference to a handle.
class ndarray_reference {
public:
    explicit ndarray_reference(ndarray_handle *th) noexcept : th_(th) { ++th->refcount; }
    ndarray_reference(ndarray_reference &&other) noexcept : th_(std::exchange(other.th_, nullptr)) {}
    ndarray_reference &operator=(ndarray_reference &&other) noexcept {
        std::swap(th_, other.th_);
        return *this;
    }
    ~ndarray_reference() { ndarray_dec_ref(th_); }
    ndarray_handle *get() const noexcept { return th_; }

private:
    ndarray_handle *th_;
};

NAMESPACE_END(detail)
NAMESPACE_END(NB_NAMESPACE)

template <> struct ferry::array_traits<nanobind::detail::ndarray_handle> {
    static constexpr bool lend_read_only = true;  // as nanobind does
    static ferry::tensor_view view(nanobind::detail::ndarray_handle const &th) noexcept { return th.view(); }
    static auto share(nanobind::detail::ndarray_handle const &th) noexcept {
        return nanobind::detail::ndarray_reference(const_cast<nanobind::detail::ndarray_handle *>(&th));
    }
    // nanobind does not know on which stream the data is ready, and ignores the stream of the consumer.
    static ferry::stream_token ready_on(nanobind::detail::ndarray_handle const &) noexcept { return ferry::already_ready; }
};
template <> struct ferry::array_traits<nanobind::detail::ndarray_reference> {
    static constexpr bool lend_read_only = true;
    static ferry::tensor_view view(nanobind::detail::ndarray_reference const &r) noexcept { return r.get()->view(); }
};

NAMESPACE_BEGIN(NB_NAMESPACE)
NAMESPACE_BEGIN(detail)

namespace py = ferry::python;

/// Sets a Python error for the current exception; returns null. The callers are noexcept.
static PyObject *raise_error() noexcept {
    py::set_copy_needed_class(PyExc_BufferError);
    py::translate_exception();
    return nullptr;
}

template <bool Versioned> PyObject *ndarray_handle::make_capsule() {
    try {
        constexpr auto max_version = Versioned ? ferry::version::current : ferry::version::legacy;
        return py::export_capsule(*this, {.req = {.max_version = max_version}}, ferry::share_only);
    } catch (...) {
        return raise_error();
    }
}

static PyObject *nb_ndarray_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    try {
        return py::export_capsule(*((nb_ndarray *) self)->th, py::parse_export_arguments(args, nargs, kwnames), ferry::share_only);
    } catch (...) {
        return raise_error();
    }
}

static PyObject *nb_ndarray_dlpack_device(PyObject *self, PyObject *) {
    return py::to_device_pair(((nb_ndarray *) self)->th->view().device());
}

static int nb_ndarray_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    return py::get_buffer(((nb_ndarray *) self)->th->view(), self, view, flags);
}
static void nb_ndarray_releasebuffer(PyObject *, Py_buffer *view) { py::release_buffer(view); }

NAMESPACE_END(detail)
NAMESPACE_END(NB_NAMESPACE)
