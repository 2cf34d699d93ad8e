// Converts the streams of Python libraries.
#include "convert.hpp"

#include <ferry/python.hpp>

#include <stdexcept>
#include <string>

namespace mt::python {
namespace {

/// Returns an attribute, or nothing if the object does not have it.
nb::object attribute(nb::handle o, char const* name) {
    auto value = nb::steal(PyObject_GetAttrString(o.ptr(), name));
    if (!value.is_valid() && PyErr_ExceptionMatches(PyExc_AttributeError) == 0) throw nb::python_error{};
    PyErr_Clear();
    return value;
}

std::uintptr_t handle_from(nb::handle o) {
    auto const handle = PyLong_AsUnsignedLongLong(o.ptr());
    if (PyErr_Occurred() == nullptr) return static_cast<std::uintptr_t>(handle);
    PyErr_Clear();
    throw std::invalid_argument{"expected a non-negative int as the handle of a stream"};
}

/// Returns the handle of a stream of another library. A null stream is the legacy default stream.
std::uintptr_t number_of(nb::handle o) {
    if (o.is_none()) return 1;
    if (PyLong_Check(o.ptr()) && !PyBool_Check(o.ptr())) {
        auto const number = handle_from(o);
        if (number == 0) {
            throw std::invalid_argument{
                "stream 0 is ambiguous: pass 1 for the legacy or 2 for the per-thread default stream"};
        }
        return number;
    }
    if (auto protocol = attribute(o, "__cuda_stream__"); protocol.is_valid()) {
        nb::object const pair = PyCallable_Check(protocol.ptr()) ? nb::object(protocol()) : protocol;
        if (!PyTuple_Check(pair.ptr()) || PyTuple_GET_SIZE(pair.ptr()) != 2) {
            throw std::invalid_argument{"__cuda_stream__ must return a pair (version, handle)"};
        }
        auto const handle = handle_from(PyTuple_GET_ITEM(pair.ptr(), 1));
        return handle == 0 ? 1 : handle;
    }
    for (auto const* name : {"cuda_stream", "ptr"}) {
        auto const value = attribute(o, name);
        if (!value.is_valid()) continue;
        auto const handle = handle_from(value);
        return handle == 0 ? 1 : handle;
    }
    throw std::invalid_argument{"expected a stream: an int, or an object with __cuda_stream__, cuda_stream or ptr"};
}

/// The context manager of `with mt.stream(s):`.
class stream_scope {
   public:
    explicit stream_scope(nb::handle o)
        : handle_{number_of(o)},
          owner_{std::make_shared<ferry::python::owned_object>(ferry::python::owned_object::share(o.ptr()))} {
        if (!mt::cuda_available()) throw mt::buffer_error{"streams require CUDA, and minitensor found no CUDA driver or device that it can use"};
    }
    void enter() const { enter_stream(handle_, owner_); }
    [[nodiscard]] std::uintptr_t handle() const { return handle_; }

   private:
    std::uintptr_t handle_;
    std::shared_ptr<void const> owner_;
};

/// Returns the innermost stream that this thread has entered, of any device.
mt::stream innermost() { return mt::current_stream({mt::device::cuda_host, 0}); }

}  // namespace

void define_streams(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<stream_scope>(m, "stream", "Makes a CUDA stream the current stream of this thread: `with stream(s): ...`")
        .def(nb::init<nb::handle>(), "s"_a.none(),
             "`s`: an int (1: the legacy default stream, 2: the per-thread default stream, else a cudaStream_t that "
             "outlives the work queued on it), or an object with __cuda_stream__, cuda_stream or ptr, which "
             "is kept alive as long as it is needed.")
        .def("__enter__", [](nb::handle self) {
            nb::cast<stream_scope const&>(self).enter();
            return nb::borrow(self);
        })
        .def("__exit__", [](nb::handle, nb::args) { leave_stream(); })
        .def_prop_ro("ptr", &stream_scope::handle, "The handle of the stream.");
    m.def(
        "current_stream",
        [](nb::handle device) {
            auto const s = device.is_none() ? innermost() : mt::current_stream(to_device(device));
            return s.handle == 0 ? std::uintptr_t{1} : s.handle;
        },
        "device"_a = nb::none(),
        "The handle of the current stream of this thread for a device: 1 is the legacy default stream.");
    m.def("cuda_available", &mt::cuda_available, "Whether there is a GPU that minitensor can use.");
    m.def("device_count", &mt::device_count, "The number of GPUs.");
    m.def(
        "synchronize",
        [](nb::handle device) {
            auto id = innermost().device;
            if (PyLong_Check(device.ptr())) id = nb::cast<std::int32_t>(device);
            else if (!device.is_none()) id = to_device(device).id;
            ferry::python::without_gil const unlocked;
            mt::synchronize(id);
        },
        "device"_a = nb::none(), "Wait for all work on a GPU: the GPU of the current stream, unless another is given.");
}

}  // namespace mt::python
