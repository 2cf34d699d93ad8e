#include "interpreter.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
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

namespace {

array host_array{{1, 2, 3}, {3}};
PyObject* type_of_imports = nullptr;

using ferry::python::reference;

ferry::abi::exchange_api const* table_of(PyTypeObject* type) {
    reference const capsule{
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), ferry::abi::exchange_api_attribute)};
    REQUIRE(capsule);
    return static_cast<ferry::abi::exchange_api const*>(
        PyCapsule_GetPointer(capsule.get(), ferry::abi::exchange_api_capsule));
}

constexpr auto no_wrap = [](array&&) -> PyObject* { return Py_NewRef(Py_None); };

/// Exports an object of a new type, with `unwrap`, through its methods and its table.
template <class Unwrap>
ferry::abi::exchange_api const* check_exports(Unwrap unwrap) {
    auto* const type = make_type(Py_TPFLAGS_DEFAULT);
    REQUIRE(ferry::python::install_dlpack<array>(type, unwrap, no_wrap));
    reference const object{PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type))};
    reference const capsule{PyObject_CallMethod(object.get(), "__dlpack__", nullptr)};
    REQUIRE(capsule);
    auto const by_method = ferry::python::from_capsule(capsule.get());
    CHECK(by_method.view().size() == 3);
    auto const* const table = table_of(type);
    DLManagedTensorVersioned* raw = nullptr;
    REQUIRE(table->managed_tensor_from_py_object_no_sync(object.get(), &raw) == 0);
    auto const by_table = ferry::from_dlpack(raw);
    CHECK(by_table.view().size() == 3);
    return table;
}

}  // namespace

TEST_CASE("R75: an array that unwrap returns by value is exported, and never borrowed") {
    support::start_python();
    auto const is_borrowed = [](auto unwrap) {
        return check_exports(unwrap)->dltensor_from_py_object_no_sync != nullptr;
    };
    CHECK(is_borrowed([](PyObject*) { return &host_array; }));
    CHECK(is_borrowed([](PyObject*) -> array& { return host_array; }));
    CHECK_FALSE(is_borrowed([](PyObject*) { return std::optional{host_array}; }));
    CHECK_FALSE(is_borrowed([](PyObject*) { return std::make_shared<array>(host_array); }));
    CHECK_FALSE(is_borrowed([](PyObject*) { return std::make_unique<array>(host_array); }));
}

TEST_CASE("R77: an empty optional and an exception of unwrap are Python errors") {
    support::start_python();
    auto const exported = [](auto unwrap) {
        auto* const type = make_type(Py_TPFLAGS_DEFAULT);
        REQUIRE(ferry::python::install_exports<array>(type, unwrap));
        reference const object{PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type))};
        reference const capsule{PyObject_CallMethod(object.get(), "__dlpack__", nullptr)};
        CHECK_FALSE(capsule);
    };
    exported([](PyObject*) { return std::optional<array>{}; });
    support::taken_error(PyExc_TypeError);
    exported([](PyObject*) -> array& { throw std::invalid_argument{"closed"}; });
    CHECK(support::taken_error(PyExc_ValueError) == "closed");
}

TEST_CASE("R74: wrap receives the Python type, from the method and from the table") {
    support::start_python();
    auto* const type = make_type(Py_TPFLAGS_DEFAULT);
    auto const unwrap = [](PyObject*) { return &host_array; };
    auto const wrap = [](array&&, PyTypeObject* t) {
        type_of_imports = reinterpret_cast<PyObject*>(t);
        return Py_NewRef(Py_None);
    };
    REQUIRE(ferry::python::install_dlpack<array>(type, unwrap, wrap));
    reference const object{PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type))};
    reference const imported{
        PyObject_CallMethod(reinterpret_cast<PyObject*>(type), "from_dlpack", "O", object.get())};
    REQUIRE(imported);
    CHECK(type_of_imports == reinterpret_cast<PyObject*>(type));
    type_of_imports = nullptr;
    DLManagedTensorVersioned* raw = nullptr;
    REQUIRE(table_of(type)->managed_tensor_from_py_object_no_sync(object.get(), &raw) == 0);
    void* made = nullptr;
    REQUIRE(table_of(type)->managed_tensor_to_py_object_no_sync(raw, &made) == 0);
    reference const held{static_cast<PyObject*>(made)};
    CHECK(type_of_imports == reinterpret_cast<PyObject*>(type));

    // The table is static: a second type would receive the objects of the first.
    auto* const other = make_type(Py_TPFLAGS_DEFAULT);
    CHECK_FALSE(ferry::python::install_exchange_api<array>(other, unwrap, wrap));
    CHECK(support::taken_error(PyExc_ValueError).find("different lambdas for each Python type") != std::string::npos);
    CHECK(ferry::python::install_exchange_api<array>(type, unwrap, wrap));
}

TEST_CASE("R69: a type without from_dlpack has the exports and the table") {
    support::start_python();
    auto* const type = make_type(Py_TPFLAGS_DEFAULT);
    auto const unwrap = [](PyObject*) { return &host_array; };
    REQUIRE(ferry::python::install_exports<array>(type, unwrap));
    REQUIRE(ferry::python::install_exchange_api<array>(type, unwrap, no_wrap));
    CHECK(PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "__dlpack__") == 1);
    CHECK(PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "from_dlpack") == 0);
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
