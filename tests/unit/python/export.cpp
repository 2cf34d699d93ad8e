#include "interpreter.hpp"

#include <support/fails.hpp>
#include <support/sim_array.hpp>

#include <ferry/column/from_tensors.hpp>
#include <ferry/python/arrow.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

/// Shared storage that a resize replaces, like the elements of a vector. A view of the old elements refers to freed
/// memory.
struct growing_array {
    std::shared_ptr<std::vector<float>> values;
    std::int64_t size = 0;

    explicit growing_array(std::size_t n) { resize(n); }
    void resize(std::size_t n) {
        values = std::make_shared<std::vector<float>>(n, static_cast<float>(n));
        size = static_cast<std::int64_t>(n);
    }
};

growing_array* subject = nullptr;  // of the test that runs

PyObject* grow(PyObject*, PyObject*) {
    subject->resize(1000);
    return PyLong_FromLong(1);
}
PyMethodDef grow_method{"grow", grow, METH_NOARGS, nullptr};

std::unique_ptr<growing_array> in_object;  // what a Python object of the array type holds

PyObject* replace(PyObject*, PyObject*) {
    in_object = std::make_unique<growing_array>(1000);
    return PyLong_FromLong(1);
}
PyMethodDef replace_method{"replace", replace, METH_NOARGS, nullptr};

std::unique_ptr<ferry::column> column_in_object;  // what a Python object of the column type holds

std::unique_ptr<ferry::column> numbers(std::int64_t n) {
    std::vector<float> values(static_cast<std::size_t>(n));
    ferry::tensor_view const v{values.data(), {&n, 1}};
    return std::make_unique<ferry::column>(ferry::from_tensors(ferry::make_managed(std::move(values), v)));
}

PyObject* replace_column(PyObject*, PyObject*) {
    column_in_object = numbers(1000);
    return PyLong_FromLong(1);
}
PyMethodDef replace_column_method{"replace_column", replace_column, METH_NOARGS, nullptr};

/// An object whose `__index__` calls a function that gives 1: by default, it resizes the subject.
ferry::python::reference growing_number(PyMethodDef& called = grow_method) {
    ferry::python::reference const globals{PyDict_New()}, function{PyCFunction_New(&called, nullptr)};
    PyDict_SetItemString(globals.get(), "grow", function.get());
    PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
    ferry::python::reference made{PyRun_String("type('N', (), {'__index__': lambda self: grow()})()", Py_eval_input,
                                               globals.get(), globals.get())};
    REQUIRE(made);
    return made;
}

/// Replaces the array's storage before it copies, as another thread may once the GIL is given away.
struct interrupting_back_end : ferry::host_back_end {
    void copy(ferry::copy_plan const& plan, void* dst, ferry::device, void const* src, ferry::device,
              ferry::stream_token) const {
        subject->resize(1000);
        ferry::copy_on_host(plan, dst, src);
    }
};

}  // namespace

template <>
struct ferry::array_traits<growing_array> {
    static tensor_view view(growing_array& a) { return {a.values->data(), {&a.size, 1}}; }
    static growing_array share(growing_array const& a) { return a; }
};

namespace {

ferry::managed_tensor exported(growing_array& a, ferry::python::export_arguments const& given) {
    subject = &a;
    interrupting_back_end b;
    ferry::python::reference const capsule{ferry::python::export_capsule(a, given, b)};
    return ferry::python::from_capsule(capsule.get());
}

}  // namespace

namespace {

/// An array behind an event. The wait replaces its storage, as another thread may while the GIL is released.
struct replacing_event {
    void wait_for_event(ferry::device, ferry::stream_token) const { subject->resize(1000); }
};
struct pending_array {
    growing_array array;
};
/// The same, whose owner is of another type, which cannot be shared, and which allocates copies itself.
struct pending_owner {
    growing_array array;
};
struct pooled_array : pending_owner {
    static inline int allocations = 0;
};
struct pinned_back_end : ferry::host_back_end {
    static bool reaches(ferry::device) noexcept { return true; }
};

/// A constant that is lent to legacy consumers.
struct constant {
    std::shared_ptr<float const> value = std::make_shared<float const>(1.0F);
};

/// The same, not lent, and on a device that does not exist.
struct unlent_constant : constant {};
struct misplaced_constant : constant {};

/// An array of the simulated device with an event, which counts how often it is asked.
struct event {
    support::sim_gate reached;
    support::sim_system* sim;
    void wait_for_event(ferry::device, ferry::stream_token on) const {
        if (on.names_stream()) sim->queue(on, [gate = reached] { gate.pass(); });
        else reached.pass();
    }
};
struct ahead {
    support::sim_array array;
    event ready;
    int* asked;
};

}  // namespace

template <>
struct ferry::array_traits<pending_array> {
    static tensor_view view(pending_array& a) {
        return {a.array.values->data(), dtype_of<float>, {&a.array.size, 1}, {}, device_type::cuda_host};
    }
    static pending_array share(pending_array const& a) { return a; }
    static replacing_event ready_on(pending_array const&) { return {}; }
};
template <>
struct ferry::array_traits<pending_owner> {
    static tensor_view view(pending_owner& a) {
        return {a.array.values->data(), dtype_of<float>, {&a.array.size, 1}, {}, device_type::cuda_host};
    }
};
template <>
struct ferry::array_traits<pooled_array> {
    static tensor_view view(pooled_array& a) { return array_traits<pending_owner>::view(a); }
    static pending_owner share(pooled_array const& a) { return a; }
    static pooled_array allocate(data_type, shape_view shape, ferry::device) {
        ++pooled_array::allocations;
        return {growing_array{static_cast<std::size_t>(shape[0])}};
    }
    static replacing_event ready_on(pooled_array const&) { return {}; }
};
template <>
struct ferry::array_traits<constant> {
    static constexpr bool lend_read_only = true;
    static tensor_view view(constant const& c) { return {c.value.get(), {}}; }
    static constant share(constant const& c) { return c; }
};
template <>
struct ferry::array_traits<unlent_constant> {
    static tensor_view view(unlent_constant const& c) { return {c.value.get(), {}}; }
    static unlent_constant share(unlent_constant const& c) { return c; }
};
template <>
struct ferry::array_traits<misplaced_constant> {
    static tensor_view view(misplaced_constant const& c) { return {c.value.get(), {}, {}, {device_type::cuda, -1}}; }
    static misplaced_constant share(misplaced_constant const& c) { return c; }
};
template <>
struct ferry::array_traits<ahead> {
    static tensor_view view(ahead const& a) { return array_traits<support::sim_array>::view(a.array); }
    static ahead share(ahead const& a) { return a; }
    static event ready_on(ahead const& a) { return ++*a.asked, a.ready; }
};

TEST_CASE("R15: a read-only array that is lent to legacy consumers is shared in their capsule") {
    support::start_python();
    constant const c;
    ferry::python::export_arguments given;
    given.copy = Py_False;
    ferry::python::reference const capsule{ferry::python::export_capsule(c, given, ferry::host_only)};
    REQUIRE(capsule);
    auto const* const raw = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.get(), "dltensor"));
    REQUIRE(raw != nullptr);
    CHECK(raw->dl_tensor.data == c.value.get());
}

TEST_CASE("R53: an export through share_only refuses a copy with the argument to change") {
    support::start_python();
    auto const text = [](auto const& array, ferry::request const& req) {
        static_cast<void>(ferry::python::guarded([&] {
            return ferry::python::export_capsule(array, ferry::python::converted_arguments{req, {}}, ferry::share_only);
        }));
        return support::taken_error(PyExc_BufferError);
    };
    constant const one{};
    ferry::python::converted_arguments const copied{{.copy = ferry::copy_policy::always}, {}};
    support::fails(ferry::errc::copy_needed,
                   [&] { static_cast<void>(ferry::python::export_capsule(one, copied, ferry::share_only)); },
                   {"omit copy=True"});
    CHECK(text(constant{}, {.copy = ferry::copy_policy::always}) ==
          "__dlpack__: this object cannot copy: omit copy=True");
    CHECK(text(constant{}, {.device = ferry::device{ferry::device_type::cuda, 1}}) ==
          "__dlpack__: the data is on cpu:0, and this object cannot copy it to cuda:1: omit dl_device");
    CHECK(text(unlent_constant{}, {.max_version = ferry::version::legacy}) ==
          "__dlpack__: the array is read-only or has padded elements: pass max_version=(1, 0)");
    CHECK(text(misplaced_constant{}, {}) ==
          "__dlpack__: the device of the array is not one that DLPack defines: correct the device in the adapter");
}

TEST_CASE("R43, R44: __dlpack__ asks for the event of an array only if a stream waits, and not for stream=-1") {
    support::start_python();
    for (auto const* const policy : {Py_False, Py_True}) {
        support::sim_system sim{ferry::device_type::cuda};
        auto const theirs = sim.make_stream(ferry::device_type::cuda), ours = sim.make_stream(ferry::device_type::cuda);
        auto const gate = sim.close(theirs);
        int asked = 0;
        ahead array{support::make_array(sim, ferry::device_type::cuda, theirs, {4}), {{}, &sim}, &asked};
        sim.queue(theirs, [reached = array.ready.reached] { reached.open(); });
        auto const next = sim.close(theirs);
        ferry::python::reference const version{Py_BuildValue("(ii)", 1, 0)}, no_sync{PyLong_FromLong(-1)},
            stream{ferry::python::detail::to_number(ours)};
        ferry::python::export_arguments given;
        given.max_version = version.get();
        given.copy = const_cast<PyObject*>(policy);
        given.stream = stream.get();
        ferry::python::reference const ordered{ferry::python::export_capsule(array, given, sim)};
        CHECK(asked == 1);
        CHECK(!gate.is_open());
        gate.open();
        sim.finish(ours);
        CHECK(!next.is_open());
        given.stream = no_sync.get();
        given.copy = Py_False;
        ferry::python::reference const unordered{ferry::python::export_capsule(array, given, sim)};
        CHECK(unordered);
        CHECK(asked == 1);
        next.open();
    }
}

TEST_CASE("R52: the view is taken after the arguments have run what they run") {
    support::start_python();
    auto const number = growing_number();
    ferry::python::reference const version{PyTuple_Pack(2, number.get(), number.get())};
    ferry::python::reference const plain{Py_BuildValue("(ii)", 1, 0)}, zero{PyLong_FromLong(0)};
    ferry::python::reference const device{PyTuple_Pack(2, number.get(), zero.get())};
    ferry::python::export_arguments by_version, by_device;
    by_version.max_version = version.get();
    by_device.max_version = plain.get();
    by_device.dl_device = device.get();
    for (auto const& given : {by_version, by_device}) {
        growing_array a{3};
        auto const tensor = exported(a, given);
        CHECK(tensor.view().size() == 1000);
        CHECK(tensor.view().data() == a.values->data());
    }
}

TEST_CASE("R52: a method finds the array in its object after the arguments have run what they run") {
    support::start_python();
    auto const number = growing_number(replace_method);
    ferry::python::reference const version{PyTuple_Pack(2, number.get(), number.get())},
        names = support::eval("('max_version',)");
    in_object = std::make_unique<growing_array>(3);
    auto const method = ferry::python::dlpack_method<growing_array>([](PyObject*) { return in_object.get(); });
    auto const call = reinterpret_cast<PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)>(
        reinterpret_cast<void (*)()>(method.ml_meth));
    PyObject* const values[] = {version.get()};
    ferry::python::reference const capsule{call(Py_None, values, 0, names.get())};
    REQUIRE(capsule);
    auto const tensor = ferry::python::from_capsule(capsule.get());
    CHECK(tensor.view().data() == in_object->values->data());
    CHECK(tensor.view().size() == 1000);
}

TEST_CASE("R52: the column that is exported is the one in the object after the arguments have been converted") {
    support::start_python();
    auto const number = growing_number(replace_column_method);
    // Replaces the column once: a second one could be at the address of the first.
    ferry::python::reference const zero{PyLong_FromLong(0)}, version{PyTuple_Pack(2, number.get(), zero.get())},
        names = support::eval("('max_version',)");
    column_in_object = numbers(3);
    constexpr auto unwrap = [](PyObject*) -> ferry::column const* { return column_in_object.get(); };
    constexpr auto wrap = [](ferry::column&&) { return Py_NewRef(Py_None); };
    using methods = ferry::python::detail::column_methods<decltype(unwrap), decltype(wrap), ferry::host_back_end>;
    PyObject* const values[] = {version.get()};
    ferry::python::reference const capsule{methods::dlpack(Py_None, values, 0, names.get())};
    REQUIRE(capsule);
    auto const tensor = ferry::python::from_capsule(capsule.get());
    CHECK(tensor.view().size() == 1000);
}

TEST_CASE("R54: a copy is made from a handle of its own, whatever becomes of the array meanwhile") {
    support::start_python();
    ferry::python::reference const version{Py_BuildValue("(ii)", 1, 0)};
    ferry::python::export_arguments given;
    given.max_version = version.get();
    given.copy = Py_True;
    growing_array a{3};
    auto const tensor = exported(a, given);
    REQUIRE(a.size == 1000);
    REQUIRE(tensor.view().size() == 3);
    auto const values = tensor.as<float const, 1>();
    for (std::int64_t i = 0; i < 3; ++i) CHECK(values(i) == 3.0F);
}

TEST_CASE("R50: a queued copy in a capsule that is dropped early is made before its memory and its source go") {
    support::start_python();
    support::sim_system sim{ferry::device_type::cuda};
    auto const theirs = sim.make_stream(ferry::device_type::cuda), ours = sim.make_stream(ferry::device_type::cuda);
    auto const gate = sim.close(theirs);
    std::optional array{support::make_array(sim, ferry::device_type::cuda, theirs, {4})};
    ferry::python::reference const version{Py_BuildValue("(ii)", 1, 0)}, stream{ferry::python::detail::to_number(ours)};
    ferry::python::export_arguments given;
    given.max_version = version.get();
    given.copy = Py_True;
    given.stream = stream.get();
    std::optional<ferry::python::reference> capsule{std::in_place, ferry::python::export_capsule(*array, given, sim)};
    array.reset();
    CHECK(sim.live_bytes() == 2 * 4 * 4);
    {
        support::opener const opens{sim, gate};
        capsule.reset();
        CHECK(gate.is_open());  // the end of the capsule has waited for it
    }
    sim.finish(ours);
    CHECK(sim.reads_after_release() == 0);
    CHECK(sim.live_bytes() == 0);
}

TEST_CASE_TEMPLATE("R43: the array that was waited for is exported, whatever becomes of the array meanwhile", Array,
                   pending_array, pooled_array) {
    support::start_python();
    ferry::python::reference const version{Py_BuildValue("(ii)", 1, 0)};
    ferry::python::export_arguments given;
    given.max_version = version.get();
    for (auto* const policy : {Py_None, Py_True}) {
        given.copy = policy;
        Array a{growing_array{3}};
        subject = &a.array;
        int const allocations = pooled_array::allocations;
        ferry::python::reference const capsule{ferry::python::export_capsule(a, given, pinned_back_end{})};
        REQUIRE(a.array.size == 1000);
        CHECK(pooled_array::allocations - allocations == (policy == Py_True && std::same_as<Array, pooled_array>));
        auto const tensor = ferry::python::from_capsule(capsule.get());
        REQUIRE(tensor.view().size() == 3);
        CHECK(tensor.as<float const, 1>()(2) == 3.0F);
    }
}

TEST_CASE("R52: the arguments of both calling conventions are the same") {
    support::start_python();
    ferry::python::reference const keywords = support::eval("{'copy': True, 'stream': -1, 'max_version': (1, 1)}"),
                                   names = support::eval("('copy', 'stream', 'max_version')"),
                                   none = support::eval("()"), one = support::eval("(1,)"),
                                   unknown = support::eval("{'copies': True}");
    PyObject* values[3];
    Py_ssize_t n = 0;
    for (auto* const name : {"copy", "stream", "max_version"}) values[n++] = PyDict_GetItemString(keywords.get(), name);
    auto const by_dict = ferry::python::parse_export_arguments(none.get(), keywords.get());
    auto const by_vector = ferry::python::parse_export_arguments(values, 0, names.get());
    CHECK(by_dict.copy == Py_True);
    CHECK(by_vector.copy == Py_True);
    CHECK(by_dict.stream == by_vector.stream);
    CHECK(by_dict.max_version == by_vector.max_version);
    CHECK(by_dict.dl_device == Py_None);
    CHECK(ferry::python::parse_export_arguments(nullptr, nullptr).copy == Py_None);
    CHECK_THROWS_AS(static_cast<void>(ferry::python::parse_export_arguments(one.get(), nullptr)),
                    ferry::python::error_is_set);
    CHECK(support::taken_error(PyExc_TypeError).find("does not accept positional arguments") != std::string::npos);
    CHECK_THROWS_AS(static_cast<void>(ferry::python::parse_export_arguments(none.get(), unknown.get())),
                    ferry::python::error_is_set);
    CHECK(support::taken_error(PyExc_TypeError).find("'copies'") != std::string::npos);
}

TEST_CASE("R35, R37: the id of host-accessible memory is 0 in __dlpack_device__") {
    support::start_python();
    auto const is = [](ferry::device dev, char const* expected) {
        ferry::python::reference const pair{ferry::python::to_device_pair(dev)}, wanted = support::eval(expected);
        return PyObject_RichCompareBool(pair.get(), wanted.get(), Py_EQ) == 1;
    };
    CHECK(is(ferry::cpu, "(1, 0)"));
    CHECK(is({ferry::device_type::cuda_host, 3}, "(3, 0)"));
    CHECK(is({ferry::device_type::cuda, 3}, "(2, 3)"));
}

TEST_CASE("R81: an exception of a guarded function becomes a Python error") {
    support::start_python();
    CHECK(ferry::python::guarded([]() -> PyObject* { throw std::bad_alloc{}; }) == nullptr);
    support::taken_error(PyExc_MemoryError);
    ferry::python::reference const value{ferry::python::guarded([] { return PyLong_FromLong(3); })};
    CHECK(PyLong_AsLong(value.get()) == 3);
}
