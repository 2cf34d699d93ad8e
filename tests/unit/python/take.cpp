// R62, R63: taking a struct out of a capsule is one step.
#include "interpreter.hpp"

#include "support/counting_producer.hpp"

#include <thread>
#include <utility>

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

using ferry::python::reference;
using support::counting_producer;
using support::legacy_producer;

namespace {

float values[6] = {0, 1, 2, 3, 4, 5};

/// What happens while this thread takes a capsule: since from_capsule began, and between reading and renaming.
struct events {
    bool is_watched = false, is_between = false;
    int renamings = 0, allocations = 0, between = 0;
    void note(int& count) {
        ++count;
        if (is_between) ++between;
    }
};
thread_local constinit events seen;

PyMemAllocatorEx original;
void* allocate(void*, std::size_t size) {
    if (seen.is_watched) seen.note(seen.allocations);
    return original.malloc(original.ctx, size);
}
void* allocate_zeroed(void*, std::size_t count, std::size_t size) {
    if (seen.is_watched) seen.note(seen.allocations);
    return original.calloc(original.ctx, count, size);
}
void* resize(void*, void* old, std::size_t size) {
    if (seen.is_watched) seen.note(seen.allocations);
    return original.realloc(original.ctx, old, size);
}
void release(void*, void* old) { original.free(original.ctx, old); }

/// Watches this thread and the allocator of objects while it lives.
struct watch {
    watch() {
        PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &original);
        PyMemAllocatorEx watching{nullptr, &allocate, &allocate_zeroed, &resize, &release};
        PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &watching);
        seen = {.is_watched = true};
    }
    ~watch() {
        seen.is_watched = false;
        PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &original);
    }
};

/// Python code that runs checks for pending calls, whatever else it does.
int note_code(void*) {
    if (seen.is_between) ++seen.between;
    return 0;
}

// What this program calls instead of functions of libpython, which these call.
decltype(&PyCapsule_GetPointer) real_read;
void* watched_read(PyObject* capsule, char const* name) {
    void* const pointer = real_read(capsule, name);
    if (seen.is_watched && pointer != nullptr) {
        seen.is_between = true;
        Py_AddPendingCall(&note_code, nullptr);
    }
    return pointer;
}
decltype(&PyCapsule_SetName) real_rename;
int watched_rename(PyObject* capsule, char const* name) {
    int const result = real_rename(capsule, name);
    if (seen.is_watched) {
        ++seen.renamings;
        seen.is_between = false;
    }
    return result;
}
decltype(&PyEval_SaveThread) real_save;
PyThreadState* watched_save() {
    if (seen.is_between) ++seen.between;
    return real_save();
}

}  // namespace

#if defined(_WIN32)
// The table through which this program calls functions of a DLL.
extern "C" decltype(real_read) __imp_PyCapsule_GetPointer;
extern "C" decltype(real_rename) __imp_PyCapsule_SetName;
extern "C" decltype(real_save) __imp_PyEval_SaveThread;
static bool const is_watching = [] {
    real_read = std::exchange(__imp_PyCapsule_GetPointer, &watched_read);
    real_rename = std::exchange(__imp_PyCapsule_SetName, &watched_rename);
    real_save = std::exchange(__imp_PyEval_SaveThread, &watched_save);
    return true;
}();
#else
// These definitions stand before libpython's.
extern "C" void* PyCapsule_GetPointer(PyObject* capsule, char const* name) { return watched_read(capsule, name); }
extern "C" int PyCapsule_SetName(PyObject* capsule, char const* name) { return watched_rename(capsule, name); }
extern "C" PyThreadState* PyEval_SaveThread() { return watched_save(); }
template <class Function>
static bool find(Function*& function, char const* name) {
    return (function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name))) != nullptr;
}
static bool const is_watching = find(real_read, "PyCapsule_GetPointer") && find(real_rename, "PyCapsule_SetName") &&
                                find(real_save, "PyEval_SaveThread");
#endif

namespace {

template <class Producer>
void check_that_taking_is_one_step() {
    REQUIRE(is_watching);
    support::start_python();
    Producer p{values, support::float32, {2, 3}};
    reference const capsule{ferry::python::detail::make_capsule(&p.raw)};
    {
        watch const watching;
        auto const tensor = ferry::python::from_capsule(capsule.get());
        CHECK(tensor.view().data() == values);
        CHECK(seen.renamings == 1);
        CHECK(seen.between == 0);
        CHECK(seen.allocations == 0);
    }
    CHECK(p.deleter_calls == 1);
}

template <class Producer>
void check_that_one_of_two_takers_wins() {
    support::start_python();
    Producer p{values, support::float32, {2, 3}};
    using Raw = decltype(p.raw);
    reference const capsule{ferry::python::detail::make_capsule(&p.raw)};
    Raw* taken[2] = {};
    bool has_error[2] = {};
    auto const take = [&](int i) {
        auto const state = PyGILState_Ensure();
        taken[i] = ferry::python::detail::take<Raw>(capsule.get());
        has_error[i] = PyErr_Occurred() != nullptr;
        PyGILState_Release(state);
    };
    {
        ferry::python::without_gil const others_run;
        std::thread one{take, 0}, other{take, 1};
        one.join();
        other.join();
    }
    CHECK((taken[0] == nullptr) != (taken[1] == nullptr));
    CHECK((taken[0] == &p.raw || taken[1] == &p.raw));
    CHECK((!has_error[0] && !has_error[1]));
    p.raw.deleter(&p.raw);
    CHECK(p.deleter_calls == 1);
}

}  // namespace

TEST_CASE("R62: between reading and renaming a versioned capsule no Python code runs") {
    check_that_taking_is_one_step<counting_producer>();
}
TEST_CASE("R62: between reading and renaming a legacy capsule no Python code runs") {
    check_that_taking_is_one_step<legacy_producer>();
}
TEST_CASE("R63, R68: of two threads that take a versioned capsule one gets the struct") {
    check_that_one_of_two_takers_wins<counting_producer>();
}
TEST_CASE("R63, R68: of two threads that take a legacy capsule one gets the struct") {
    check_that_one_of_two_takers_wins<legacy_producer>();
}
