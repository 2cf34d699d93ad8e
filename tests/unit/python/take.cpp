// R62, R63: taking a struct out of a capsule is one step.
#include "interpreter.hpp"

#include "support/counting_producer.hpp"

#include <dlfcn.h>

#include <thread>

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

template <class Function>
Function* real(char const* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

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

}  // namespace

// These definitions stand before libpython's.
extern "C" void* PyCapsule_GetPointer(PyObject* capsule, char const* name) {
    static auto* const read = real<void*(PyObject*, char const*)>("PyCapsule_GetPointer");
    void* const pointer = read(capsule, name);
    if (seen.is_watched && pointer != nullptr) {
        seen.is_between = true;
        Py_AddPendingCall(&note_code, nullptr);
    }
    return pointer;
}
extern "C" int PyCapsule_SetName(PyObject* capsule, char const* name) {
    static auto* const rename = real<int(PyObject*, char const*)>("PyCapsule_SetName");
    int const result = rename(capsule, name);
    if (seen.is_watched) {
        ++seen.renamings;
        seen.is_between = false;
    }
    return result;
}
extern "C" PyThreadState* PyEval_SaveThread() {
    static auto* const save = real<PyThreadState*()>("PyEval_SaveThread");
    if (seen.is_between) ++seen.between;
    return save();
}

namespace {

template <class Producer>
void check_that_taking_is_one_step() {
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
