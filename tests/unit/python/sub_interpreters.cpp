// Sub-interpreters are refused by every function that would share objects between interpreters, or wait for the GIL
// later.
#include "interpreter.hpp"

#include <ferry/python/arrow.hpp>
#include <ferry/python/detail/array_interface.hpp>
#include <ferry/python/load.hpp>
#include <ferry/python/result.hpp>

#include <ferry/abi/exchange_api.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace py = ferry::python;

struct array {
    std::shared_ptr<std::vector<float>> values = std::make_shared<std::vector<float>>(3);
    std::int64_t size = 3;
};

}  // namespace

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {a.values->data(), {&a.size, 1}}; }
    static array share(array const& a) { return a; }
    static array adopt(managed_tensor) { return {}; }
};

namespace {

array known;

/// While it exists, a new sub-interpreter is current.
class sub_interpreter {
   public:
    sub_interpreter() : main_{PyThreadState_Get()}, other_{Py_NewInterpreter()} { REQUIRE(other_ != nullptr); }
    sub_interpreter(sub_interpreter const&) = delete;
    sub_interpreter& operator=(sub_interpreter const&) = delete;
    ~sub_interpreter() {
        Py_EndInterpreter(other_);
        PyThreadState_Swap(main_);
    }

   private:
    PyThreadState *main_, *other_;
};

ferry::managed_tensor tensor() { return ferry::to_dlpack(array{}); }

/// Checks that a function refuses the sub-interpreter: by null or -1 with an ImportError, or by error_is_set.
template <class F>
void refused(char const* name, F call) {
    INFO(std::string{name});
    bool is_refused = false;
    try {
        is_refused = !call();
    } catch (py::error_is_set const&) {
        is_refused = true;
    }
    CHECK(is_refused);
    CHECK(support::taken_error(PyExc_ImportError).find("sub-interpreters") != std::string::npos);
}

}  // namespace

TEST_CASE("every import and export is refused in a sub-interpreter") {
    support::start_python();
    auto const unwrap = [](PyObject*) { return &known; };
    auto const wrap = [](array&&) -> PyObject* { return PyLong_FromLong(1); };
    py::reference const published{py::exchange_api_capsule<array>(unwrap, wrap)};
    REQUIRE(published);
    auto const& table = *static_cast<ferry::abi::exchange_api const*>(
        PyCapsule_GetPointer(published.get(), ferry::abi::exchange_api_capsule));
    ferry::column_buffer const buffers[] = {{}, {known.values->data(), 12}};
    auto const column = ferry::make_column({.format = "f", .length = 3, .buffers = buffers}, known.values);
    {
        sub_interpreter const other;
        py::reference const bytes{PyBytes_FromString("abc")};
        refused("from_buffer", [&] { return static_cast<bool>(py::from_buffer(bytes.get())); });
        Py_buffer filled;
        ferry::tensor_view const v = ferry::view_of(known);
        refused("get_buffer", [&] { return py::get_buffer(v, bytes.get(), &filled, PyBUF_FULL_RO) == 0; });

        auto const is_capsule = [](PyObject* made) { return static_cast<bool>(py::reference{made}); };
        refused("to_capsule", [&] { return is_capsule(py::to_capsule(tensor())); });
        refused("export_capsule", [&] { return is_capsule(py::export_capsule(known, py::export_arguments{})); });
        refused("to_python", [&] { return is_capsule(py::to_python(tensor())); });
        refused("to_python of an array", [&] { return is_capsule(py::to_python(known)); });
        refused("arrow_schema_capsule", [&] { return is_capsule(py::arrow_schema_capsule(column.view())); });
        refused("arrow_array_capsules", [&] { return is_capsule(py::arrow_array_capsules(column)); });
        refused("arrow_device_array_capsules", [&] { return is_capsule(py::arrow_device_array_capsules(column)); });

        py::reference const capsule{py::detail::make_capsule(tensor().release())};
        refused("from_capsule", [&] { return static_cast<bool>(py::from_capsule(capsule.get())); });
        refused("from_python",
                [&] { return static_cast<bool>(py::from_python<ferry::managed_tensor>(capsule.get(), {})); });
        refused("a type caster", [&] {
            py::detail::loader<ferry::managed_tensor, py::detail::options<>> argument;
            return argument.load(capsule.get(), true);
        });
        CHECK(py::try_from_capsule(capsule.get()).error().code() == ferry::errc::argument);
        CHECK(py::try_from_python<ferry::managed_tensor>(capsule.get(), {}).error().code() == ferry::errc::argument);
        CHECK(PyErr_Occurred() == nullptr);
        CHECK(py::view_in_capsule(capsule.get()).has_value());  // not consumed

        refused("column_from_python",
                [&] { return py::column_from_python(bytes.get()).device().type == ferry::device_type::cpu; });
        refused("read_array_interface", [&] { return py::detail::read_array_interface(bytes.get()).has_value(); });
        refused("as_device", [&] { return py::as_device(bytes.get()).has_value(); });

        DLManagedTensorVersioned* raw = nullptr;
        DLTensor borrowed{};
        void* object = nullptr;
        refused("managed_tensor_from_py_object_no_sync",
                [&] { return table.managed_tensor_from_py_object_no_sync(bytes.get(), &raw) == 0; });
        refused("managed_tensor_to_py_object_no_sync",
                [&] { return table.managed_tensor_to_py_object_no_sync(tensor().release(), &object) == 0; });
        refused("dltensor_from_py_object_no_sync",
                [&] { return table.dltensor_from_py_object_no_sync(bytes.get(), &borrowed) == 0; });
    }
    CHECK(py::from_buffer(support::eval("b'abc'").get()).rank() == 1);
}

TEST_CASE("R65: a Python object that is released in a sub-interpreter does not wait for the GIL of its thread") {
    support::start_python();
    auto const object = support::eval("object()");
    auto const references = Py_REFCNT(object.get());
    std::optional<py::owned_object> owner{py::owned_object::share(object.get())};
    {
        sub_interpreter const other;
        owner.reset();
    }
    CHECK(Py_REFCNT(object.get()) == references);
}

TEST_CASE("R65: a thread without the GIL is recognised although a sub-interpreter has existed") {
    support::start_python();
    {
        sub_interpreter const other;
    }
    CHECK(py::detail::holds_gil());
    bool held = true;
    PyThreadState* const state = PyEval_SaveThread();
    std::thread{[&] { held = py::detail::holds_gil(); }}.join();
    PyEval_RestoreThread(state);
    CHECK_FALSE(held);
}
