#include "interpreter.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace {

struct array {
    std::vector<float> values;
    std::vector<std::int64_t> shape;
};

}  // namespace

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array& a) { return {a.values.data(), a.shape}; }
    static array share(array const& a) { return a; }
    static array adopt(managed_tensor) { return {}; }
};

namespace {

/// An array of a device whose streams DLPack does not name.
struct metal_array {
    std::vector<float> values;
    std::vector<std::int64_t> shape;
};

}  // namespace

template <>
struct ferry::array_traits<metal_array> {
    static tensor_view view(metal_array& a) { return {a.values.data(), a.shape, {}, device_type::metal}; }
    static metal_array share(metal_array const& a) { return a; }
    static metal_array adopt(managed_tensor) { return {}; }
};

namespace {

metal_array on_metal{{1, 2, 3}, {3}};

bool install(PyTypeObject* type) {
    return ferry::python::install_dlpack<array>(
        type, [](PyObject*) -> array* { return nullptr; },
        [](array&&) -> PyObject* {
            PyErr_SetString(PyExc_RuntimeError, "no object");
            return nullptr;
        });
}

PyTypeObject* make_type(unsigned long flags) {
    PyType_Slot slots[] = {{0, nullptr}};
    PyType_Spec spec{"tests.array", static_cast<int>(sizeof(PyObject)), 0, static_cast<unsigned>(flags), slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

}  // namespace

TEST_CASE("R52, R69: a mutable type gets the protocol") {
    support::start_python();
    auto* const type = make_type(Py_TPFLAGS_DEFAULT);
    REQUIRE(install(type));
    CHECK(PyErr_Occurred() == nullptr);
    for (auto const* name : {"__dlpack__", "__dlpack_device__", "__dlpack_c_exchange_api__", "from_dlpack"})
        CHECK(PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), name) == 1);
    ferry::python::reference const object{PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type))};
    ferry::python::reference const capsule{PyObject_CallMethod(object.get(), "__dlpack__", nullptr)};
    CHECK_FALSE(capsule);
    CHECK(support::taken_error(PyExc_TypeError) != "");  // unwrap gave nothing
}

TEST_CASE("R76: the NULL stream of a device without named streams says that nothing is pending") {
    support::start_python();
    auto* const type = make_type(Py_TPFLAGS_DEFAULT);
    REQUIRE(ferry::python::install_dlpack<metal_array>(
        type, [](PyObject*) { return &on_metal; }, [](metal_array&&) -> PyObject* { return nullptr; }));
    ferry::python::reference const object{PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type))};
    auto const got = ferry::python::from_python<ferry::managed_tensor>(object.get(), ferry::request{});
    CHECK(got.device() == ferry::device{ferry::device_type::metal});
    CHECK(got.view().size() == 3);
}

TEST_CASE("an immutable type is refused, and the message names the cure") {
    support::start_python();
    auto* const type = make_type(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE);
    for (auto* t : {type, &PyLong_Type}) {
        CHECK_FALSE(install(t));
        CHECK(support::taken_error(PyExc_TypeError).find("PyType_FromSpec, without Py_TPFLAGS_IMMUTABLETYPE") !=
              std::string::npos);
        CHECK(PyObject_HasAttrString(reinterpret_cast<PyObject*>(t), "__dlpack__") == 0);
    }
}

TEST_CASE("a sub-interpreter is refused") {
    support::start_python();
    PyThreadState* const main = PyThreadState_Get();
    PyThreadState* const other = Py_NewInterpreter();
    REQUIRE(other != nullptr);
    CHECK_FALSE(install(make_type(Py_TPFLAGS_DEFAULT)));
    CHECK(support::taken_error(PyExc_ImportError).find("sub-interpreters") != std::string::npos);
    Py_EndInterpreter(other);
    PyThreadState_Swap(main);
}
