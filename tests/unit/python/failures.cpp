// Each allocation of Python and of C++, and each look-up of an attribute, fails once: no reference, no memory of Python
// and no memory of C++ is leaked.
#include "interpreter.hpp"

#include <ferry/python/arrow.hpp>
#include <ferry/python/detail/array_interface.hpp>
#include <ferry/python/detail/column_array_interface.hpp>
#include <ferry/python/load.hpp>
#include <ferry/python/result.hpp>

#include <support/allocation_failure.hpp>

#include <ferry/abi/exchange_api.hpp>
#include <ferry/arrow.hpp>
#include <ferry/tensor/make_managed.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace py = ferry::python;
using py::reference;

struct array {
    std::shared_ptr<std::vector<float>> values = std::make_shared<std::vector<float>>(3);
    std::int64_t size = 3;
};

}  // namespace

template <>
struct ferry::array_traits<array> {
    static tensor_view view(array const& a) { return {a.values->data(), {&a.size, 1}}; }
    static array share(array const& a) { return a; }
    static array adopt(managed_tensor) { return {}; }
};

namespace {

/// The allocators of CPython, which count the blocks in use, and fail once if asked.
struct python_memory {
    static inline std::atomic<long> live = 0, until_failure = 0;
    static inline std::atomic<bool> has_failed = false;
    static inline PyMemAllocatorEx original[3];

    static bool fails() noexcept {
        if (until_failure == 0 || --until_failure != 0) return false;
        return has_failed = true;
    }
    static void* counted(void* memory) noexcept {
        if (memory != nullptr) ++live;
        return memory;
    }
    static PyMemAllocatorEx& in(void* context) noexcept { return *static_cast<PyMemAllocatorEx*>(context); }
    static void* allocate(void* c, std::size_t size) {
        return fails() ? nullptr : counted(in(c).malloc(in(c).ctx, size));
    }
    static void* allocate_zeroed(void* c, std::size_t count, std::size_t size) {
        return fails() ? nullptr : counted(in(c).calloc(in(c).ctx, count, size));
    }
    static void* reallocate(void* c, void* memory, std::size_t size) {
        if (fails()) return nullptr;
        void* const moved = in(c).realloc(in(c).ctx, memory, size);
        return memory == nullptr ? counted(moved) : moved;
    }
    static void deallocate(void* c, void* memory) {
        if (memory != nullptr) --live;
        in(c).free(in(c).ctx, memory);
    }

    /// Installs the allocators until the end of the scope.
    python_memory() {
        for (int i = 0; i < 3; ++i) {
            auto const domain = static_cast<PyMemAllocatorDomain>(i);
            PyMem_GetAllocator(domain, &original[i]);
            PyMemAllocatorEx mine{&original[i], &allocate, &allocate_zeroed, &reallocate, &deallocate};
            PyMem_SetAllocator(domain, &mine);
        }
    }
    python_memory(python_memory const&) = delete;
    python_memory& operator=(python_memory const&) = delete;
    ~python_memory() {
        for (int i = 0; i < 3; ++i) PyMem_SetAllocator(static_cast<PyMemAllocatorDomain>(i), &original[i]);
    }
};

/// The objects that the paths use, in Python. `Counted` raises in the n-th look-up of an attribute; 0: never.
constexpr char const* program = R"(
import sys
left = 0

def count():
    global left
    left -= 1
    if left == 0:
        raise KeyError('look-up')

class Meta(type):
    def __getattribute__(cls, name):
        count()
        return type.__getattribute__(cls, name)

class Counted(metaclass=Meta):
    def __init__(self, **members):
        self.__dict__.update(members)
    def __getattribute__(self, name):
        count()
        return object.__getattribute__(self, name)

class Modern(Counted):
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        return make()
    def __dlpack_device__(self):
        return 1, 0

class Old(Counted):
    def __dlpack__(self):
        return make()

class Refuses(Counted):
    def __dlpack__(self, **_):
        raise BufferError('no')
    def __dlpack_device__(self):
        return [1, 0]

class Arrow(Counted):
    def __arrow_c_array__(self, requested_schema=None):
        return pair()

class Device(Counted):
    def __arrow_c_array__(self, requested_schema=None):
        raise BufferError('on a device')
    def __arrow_c_device_array__(self, requested_schema=None, **_):
        return device_pair()

class Neither(Counted):
    def __arrow_c_array__(self, requested_schema=None):
        raise NotImplementedError

class Wrong(Counted):
    def __arrow_c_array__(self, requested_schema=None):
        return [pair()[0], 3]

class Stream(Counted):
    def __arrow_c_stream__(self, requested_schema=None):
        return stream()

class Library(Counted):
    def __array_namespace__(self):
        return self
    def from_dlpack(self, x):
        return x

class Index:
    def __index__(self):
        return 1

modern, old, refuses, arrow, device, neither, wrong, of_stream, like = (
    Modern(), Old(), Refuses(), Arrow(), Device(), Neither(), Wrong(), Stream(), Library())
interface = dict(version=3, shape=(3,), typestr='<f4', data=(4096, False), strides=(4,), stream=Index())
of_interface = Counted(__cuda_array_interface__=interface)
malformed = [Counted(__cuda_array_interface__={**interface, **change}) for change in (
    dict(typestr='<f9'), dict(typestr='>f4'), dict(shape=None), dict(shape='x'), dict(strides=(3,)), dict(strides=(4, 4)),
    dict(data=4096), dict(stream=0))]
buffer, bytes_, pairs = bytearray(12), b'abc', ([1, 0], (Index(), 0), 'cuda:1', 'cpu', 'x', modern)
watched = [None, True, False, modern, old, refuses, arrow, device, neither, wrong, of_stream, like, of_interface, interface, buffer,
           bytes_, BufferError, ValueError, TypeError, KeyError, MemoryError, Modern, Counted, make, pair, device_pair, stream]
)";

array const known;
reference scope;

/// Returns an object of the program; its look-up does not fail.
PyObject* object(char const* name) {
    long const pending = python_memory::until_failure.exchange(0);
    PyObject* const found = PyDict_GetItemString(scope.get(), name);
    python_memory::until_failure = pending;
    return found;
}

ferry::column ints() {
    static std::int32_t const numbers[] = {1, 2, 3};
    static unsigned char const bits[] = {5};
    ferry::column_buffer const buffers[] = {{bits, 1}, {numbers, sizeof numbers}};
    return ferry::make_column({.format = "i", .length = 3, .null_count = 1, .buffers = buffers},
                              std::make_shared<int>());
}

template <PyObject* (*Make)()>
PyObject* called(PyObject*, PyObject*) {
    return py::guarded([] { return Make(); });
}
PyObject* capsule() { return py::export_capsule(known, py::export_arguments{}); }
PyObject* pair() { return py::arrow_array_capsules(ints()); }
PyObject* device_pair() { return py::arrow_device_array_capsules(ints()); }
PyObject* stream() {
    ArrowArrayStream s{};
    ferry::to_arrow(ferry::chunked{{ints(), ints()}, ints()}, &s);
    return py::arrow_stream_capsule(s);
}

void prepare() {
    support::start_python();
    if (scope) return;
    static PyMethodDef functions[] = {{"make", &called<&capsule>, METH_NOARGS, nullptr},
                                      {"pair", &called<&pair>, METH_NOARGS, nullptr},
                                      {"device_pair", &called<&device_pair>, METH_NOARGS, nullptr},
                                      {"stream", &called<&stream>, METH_NOARGS, nullptr}};
    scope = reference{PyDict_New()};
    for (auto& f : functions) {
        reference const made{PyCFunction_New(&f, nullptr)};
        PyDict_SetItemString(scope.get(), f.ml_name, made.get());
    }
    reference const done{PyRun_String(program, Py_file_input, scope.get(), scope.get())};
    REQUIRE(done);
}

/// One call of the library, whose result is released and whose error is cleared.
using path = std::function<void()>;

void run(path const& call) noexcept {
    try {
        call();
    } catch (...) {
        py::translate_exception();
    }
    PyErr_Clear();
}

std::vector<Py_ssize_t> references() {
    std::vector<Py_ssize_t> all;
    PyObject* const watched = object("watched");
    for (Py_ssize_t i = 0; i < PyList_Size(watched); ++i) all.push_back(Py_REFCNT(PyList_GetItem(watched, i)));
    return all;
}

/// Checks that ten runs leave less than one object for each run behind. What is made once, and the free lists of
/// CPython, are made in earlier runs.
void leaks_nothing(std::function<void()> const& once) {
    constexpr int runs = 10;
    // The cache of look-ups, which is of a limited size, keeps names.
    auto const settle = [] { PyGC_Collect(), PyType_ClearCache(); };
    for (int i = 0; i < 3; ++i) once();
    settle();
    auto const before = references();
    long const blocks = python_memory::live;
    for (int i = 0; i < runs; ++i) once();
    settle();
    long const left = python_memory::live - blocks;
    auto const after = references();
    CHECK(left < runs);
    for (std::size_t i = 0; i < before.size(); ++i) {
        INFO("object ", i, " of `watched`");
        CHECK(after[i] - before[i] < runs);
        CHECK(before[i] - after[i] < runs);
    }
}

void set_look_up(long n) {
    reference const number{PyLong_FromLong(n)};
    PyDict_SetItemString(scope.get(), "left", number.get());
}

/// Runs a path with each allocation of Python failing in turn.
void fails_without_memory(path const& call) {
    python_memory const counted;
    for (long n = 1;; ++n) {
        INFO("Python allocation ", n, " fails");
        bool failed = false;
        leaks_nothing([&] {
            python_memory::has_failed = false;
            python_memory::until_failure = n;
            run(call);
            python_memory::until_failure = 0;
            failed = python_memory::has_failed;
        });
        if (!failed) break;
        REQUIRE(n < 2000);
    }
}

/// Runs a path with each failure in turn.
void fails_cleanly(char const* name, path const& call) {
    prepare();
    INFO(std::string{name});
    for (int i = 0; i < 3; ++i) run(call);
    fails_without_memory(call);
    python_memory const counted;
    for (int n = 1;; ++n) {
        INFO("C++ allocation ", n, " fails");
        bool failed = false;
        int live = 0;
        leaks_nothing([&] {
            support::allocation_window window{n};
            run(call);
            failed = window.has_failed();
            live = window.live();
        });
        CHECK(live == 0);
        if (!failed) break;
        REQUIRE(n < 1000);
    }
    for (long n = 1;; ++n) {
        INFO("look-up ", n, " raises");
        bool raised = false;
        leaks_nothing([&] {
            set_look_up(n);
            run(call);
            raised = PyLong_AsLong(object("left")) <= 0;
            set_look_up(0);
        });
        if (!raised) break;
        REQUIRE(n < 1000);
    }
}

template <class T>
void imports(char const* name, ferry::request const& req = {}) {
    fails_cleanly(name, [=] { static_cast<void>(py::from_python<T>(object(name), req)); });
}

void column_of(char const* name) {
    fails_cleanly(name, [=] { static_cast<void>(py::column_from_python(object(name))); });
}

}  // namespace

TEST_CASE("R67, R68: a failed import leaks nothing") {
    for (auto const* name : {"modern", "old", "refuses", "buffer"}) {
        imports<ferry::managed_tensor>(name);
        imports<array>(name, {.device = ferry::cpu});
        imports<array>(name, {.copy = ferry::copy_policy::always});
        imports<array>(name, {.copy = ferry::copy_policy::never});
    }
    fails_cleanly("a capsule", [] {
        reference const c{capsule()};
        static_cast<void>(py::from_capsule(c.get()));
        static_cast<void>(py::from_capsule(c.get()));
    });
    fails_cleanly("from_buffer", [] { static_cast<void>(py::from_buffer(object("buffer"))); });
    fails_cleanly("from_buffer without one", [] { static_cast<void>(py::from_buffer(object("modern"))); });
    fails_cleanly("a typed view", [] {
        py::detail::loader<ferry::typed_view<float const, 1>, py::detail::options<>> argument;
        static_cast<void>(argument.load(object("modern"), true));
    });
    fails_cleanly("try_from_python", [] {
        reference raised;
        static_cast<void>(py::try_from_python<ferry::managed_tensor>(object("refuses"), {}, ferry::host_only, &raised));
    });
    fails_cleanly("as_device", [] {
        PyObject* const all = object("pairs");
        for (Py_ssize_t i = 0; i < PyTuple_Size(all); ++i) {
            static_cast<void>(py::as_device(PyTuple_GetItem(all, i)));
            PyErr_Clear();
        }
    });
}

TEST_CASE("R67, R68: a failed import of a column leaks nothing") {
    for (auto const* name : {"arrow", "device", "neither", "wrong", "of_stream", "modern"}) column_of(name);
}

TEST_CASE("a failed import of an array interface leaks nothing") {
    auto const read = [](PyObject* x) { static_cast<void>(py::detail::read_array_interface(x)); };
    fails_cleanly("of_interface", [=] { read(object("of_interface")); });
    fails_cleanly("malformed", [=] {
        PyObject* const all = object("malformed");
        for (Py_ssize_t i = 0; i < PyList_Size(all); ++i) run([&] { read(PyList_GetItem(all, i)); });
    });
}

TEST_CASE("R61, R67: a failed export leaks nothing") {
    auto const drop = [](PyObject* made) { reference const dropped{made}; };
    py::export_arguments newest, copied, refused;
    prepare();
    reference const version{Py_BuildValue("(ii)", 1, 3)}, device{Py_BuildValue("(ii)", 2, 0)};
    newest.max_version = version.get();
    copied.copy = Py_True;
    refused.dl_device = device.get();
    fails_cleanly("legacy", [=] { drop(py::export_capsule(known, py::export_arguments{})); });
    fails_cleanly("versioned", [=] { drop(py::export_capsule(known, newest)); });
    fails_cleanly("a copy", [=] { drop(py::export_capsule(known, copied)); });
    fails_cleanly("refused", [=] { drop(py::export_capsule(known, refused)); });
    fails_cleanly("to_capsule", [=] { drop(py::to_capsule(ferry::to_dlpack(known))); });
    fails_cleanly("pair", [=] { drop(pair()); });
    fails_cleanly("device_pair", [=] { drop(device_pair()); });
    fails_cleanly("stream", [=] { drop(stream()); });
    fails_cleanly("describe_column", [=] {
        auto const c = ints();
        drop(py::detail::describe_column(c.view(), {}, object("modern")));
    });
    fails_cleanly("a buffer", [] {
        Py_buffer out;
        if (py::get_buffer(ferry::view_of(known), object("modern"), &out, PyBUF_FULL) != 0) return;
        py::release_buffer(&out);
        Py_DECREF(out.obj);
    });
}

TEST_CASE("a failed result leaks nothing") {
    auto const drop = [](PyObject* made) { reference const dropped{made}; };
    fails_cleanly("to_python", [=] {
        reference const made{py::to_python(known)};
        for (auto const* name : {"shape", "dtype", "readonly"}) drop(PyObject_GetAttrString(made.get(), name));
        drop(PyObject_Repr(made.get()));
    });
    fails_cleanly("like", [=] { drop(py::to_python(known, object("like"))); });
    fails_cleanly("like a type", [=] { drop(py::to_python(known, object("Index"))); });
    fails_cleanly("an error with a cause", [] {
        PyErr_SetString(PyExc_KeyError, "first");
        py::replace_error("second");
    });
    fails_cleanly("copy_needed",
                  [] { throw ferry::error{ferry::errc::copy_needed, "ferry::from_dlpack", "a copy is needed"}; });
}

TEST_CASE("names and types that are made once are made again after a failure") {
    prepare();
    struct first_use : ferry::host_back_end {};
    fails_without_memory([] { reference const made{py::to_python<py::through<first_use>>(known)}; });
    reference const made{py::to_python<py::through<first_use>>(known)};
    CHECK(made);
    fails_without_memory([] {
        py::detail::atomic_pointer<py::detail::interned_names const> names;
        py::detail::make_names(names);
        for (auto* const name :
             std::bit_cast<std::array<PyObject*, sizeof(py::detail::interned_names) / 8>>(*names.get()))
            Py_DECREF(name);
        delete names.get();
    });
}

TEST_CASE("a failed installation leaks nothing") {
    fails_cleanly("install_dlpack", [] {
        PyType_Slot slots[] = {{0, nullptr}};
        PyType_Spec spec{"tests.failing", static_cast<int>(sizeof(PyObject)), 0, Py_TPFLAGS_DEFAULT, slots};
        reference const type{PyType_FromSpec(&spec)};
        if (!type) return;
        static_cast<void>(py::install_dlpack<array>(
            reinterpret_cast<PyTypeObject*>(type.get()), [](PyObject*) { return std::optional<array>{}; },
            [](array&&) -> PyObject* { return PyErr_NoMemory(); }));
    });
}
