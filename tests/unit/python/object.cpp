#include "interpreter.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#if defined(_WIN32)
#include <process.h>
#else
#include <sys/wait.h>
#include <unistd.h>
#endif

using ferry::python::owned_object;
using ferry::python::reference;

namespace {

/// Runs f in a child process, from which it does not return; how it ends. On Windows, which has no fork, the program
/// runs its test again.
template <class F>
int in_child(F f) {
#if defined(_WIN32)
    constexpr int ran = 42;
    if (std::getenv("FERRY_IN_CHILD") != nullptr) {
        f();
        _exit(ran);
    }
    auto const* const context = doctest::getContextOptions();
    std::string test = context->currentTest->m_name;
    std::ranges::replace_if(test, [](unsigned char c) { return !std::isalnum(c); }, '?');
    _putenv("FERRY_IN_CHILD=1");
    auto const status =
        _spawnl(_P_WAIT, context->binary_name.c_str(), "child", ("--test-case=" + test).c_str(), nullptr);
    _putenv("FERRY_IN_CHILD=");
    return status == ran ? 0 : -1;
#else
    pid_t const pid = fork();
    if (pid == 0) {
        f();
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
#endif
}

}  // namespace

TEST_CASE("a reference owns what it is given, once") {
    support::start_python();
    reference list{PyList_New(0)};
    CHECK(Py_REFCNT(list.get()) == 1);
    Py_INCREF(list.get());
    {
        reference second{list.get()};
        reference third{std::move(second)};
        CHECK_FALSE(second);
        CHECK(third.get() == list.get());
        reference fourth;
        fourth = std::move(third);
        CHECK(fourth.get() == list.get());
        CHECK(Py_REFCNT(list.get()) == 2);
    }
    CHECK(Py_REFCNT(list.get()) == 1);
    PyObject* const raw = list.release();
    CHECK_FALSE(list);
    CHECK(Py_REFCNT(raw) == 1);
    Py_DECREF(raw);
}

TEST_CASE("R65: an owned object is released on a thread that has no GIL") {
    support::start_python();
    reference const list{PyList_New(0)};
    std::optional<owned_object> owner{owned_object::share(list.get())};
    CHECK(owner->get() == list.get());
    CHECK(Py_REFCNT(list.get()) == 2);
    PyThreadState* const state = PyEval_SaveThread();
    std::thread{[&] { owner.reset(); }}.join();
    PyEval_RestoreThread(state);
    CHECK(Py_REFCNT(list.get()) == 1);
}

TEST_CASE("R65: many threads release their owners at once") {
    support::start_python();
    reference const list{PyList_New(0)};
    std::optional<owned_object> owners[8];
    for (auto& owner : owners) owner.emplace(owned_object::share(list.get()));
    PyThreadState* const state = PyEval_SaveThread();
    std::thread threads[8];
    for (int i = 0; i < 8; ++i) threads[i] = std::thread{[&owners, i] { owners[i].reset(); }};
    for (auto& thread : threads) thread.join();
    PyEval_RestoreThread(state);
    CHECK(Py_REFCNT(list.get()) == 1);
}

TEST_CASE("R67: an error in flight survives the release, whatever the object's end does") {
    support::start_python();
    reference object{support::eval("type('Loud', (), {'__del__': lambda self: [].nothing})()")};
    std::optional<owned_object> owner{owned_object::share(object.get())};
    object = reference{};
    PyErr_SetString(PyExc_KeyError, "mine");
    owner.reset();
    CHECK(support::taken_error(PyExc_KeyError) == "mine");
    CHECK(PyErr_Occurred() == nullptr);
}

TEST_CASE("an owned object moves without touching Python") {
    support::start_python();
    reference const list{PyList_New(0)};
    {
        auto first = owned_object::share(list.get());
        auto second = std::move(first);
        CHECK(first.get() == nullptr);
        auto third = owned_object::share(list.get());
        third = std::move(second);
        CHECK(third.get() == list.get());
    }
    CHECK(Py_REFCNT(list.get()) == 1);
}

TEST_CASE("R66: after the interpreter's end an owned object is leaked, not touched") {
    support::start_python();
    CHECK(in_child([] {
              auto owner = owned_object::share(PyList_New(3));
              if (Py_FinalizeEx() != 0) _exit(1);
              if (!ferry::python::is_finalizing()) _exit(2);
              std::thread{[held = std::move(owner)]() mutable { auto const gone = std::move(held); }}.join();
          }) == 0);
}

TEST_CASE("R66: a deleter that holds a Python object runs after the interpreter's end") {
    support::start_python();
    CHECK(in_child([] {
              static int value = 7;
              DLManagedTensorVersioned* raw =
                  ferry::make_managed(owned_object::share(PyList_New(1)),
                                      ferry::tensor_view{&value, ferry::dtype_of<int>, {}, {}, ferry::cpu})
                      .release();
              if (Py_FinalizeEx() != 0) _exit(1);
              raw->deleter(raw);
          }) == 0);
}
