#include "interpreter.hpp"

#include <new>
#include <source_location>
#include <stdexcept>

namespace {

template <class F>
std::string translated(PyObject* type, F f) {
    support::start_python();
    try {
        f();
    } catch (...) {
        ferry::python::translate_exception();
    }
    return support::taken_error(type);
}

[[noreturn]] void fail_with(ferry::errc code) {
    ferry::detail::fail(code, "test", ferry::message{"the message"}, std::source_location::current());
}

}  // namespace

TEST_CASE("R81: what cannot travel is a BufferError") {
    using enum ferry::errc;
    for (auto const code :
         {version, device, dtype, rank, shape, overflow, null_data, strides, read_only, no_backend, null_struct,
          not_shareable, flags, not_exportable, same_process, already_mapped, no_context, unsupported_platform})
        CHECK(translated(PyExc_BufferError, [&] { fail_with(code); }).find("the message") != std::string::npos);
}

TEST_CASE("R40: the error of a missing back end names a cure for Python") {
    CHECK(translated(PyExc_BufferError, [] { fail_with(ferry::errc::no_backend); }).find("pass device='cpu'") !=
          std::string::npos);
}

TEST_CASE("R81: a text for Python names no rules, no namespace and no C++ function as the fix") {
    auto const text = [](ferry::errc code, char const* message) {
        return translated(ferry::python::detail::class_of(code),
                          [=] { ferry::detail::fail(code, "ferry::to_dlpack", ferry::message{message}, {}); });
    };
    using enum ferry::errc;
    CHECK(text(dtype, "dtype is int7 (R16): view it as uint8 (R3, R43–R45)") ==
          "to_dlpack: dtype is int7: view it as uint8");
    CHECK(text(read_only, "it is read-only (R11): call data(), or request copy_policy::always") ==
          "to_dlpack: it is read-only: copy the array first, with copy=True or x.copy()");
    CHECK(text(argument, "no: pass ferry::destination") == "to_dlpack: no");  // no fix fits all such errors
    CHECK(translated(PyExc_OSError, [] { ferry::detail::fail(busy, "ferry::ipc::a", ferry::message{"b::c"}, {}); }) ==
          "a: b::c");
    CHECK(text(out_of_memory, "it is full: mount it larger, or use others (session_options::segments)") ==
          "to_dlpack: it is full: mount it larger, or use others");
    CHECK(text(shape, "the shape (2, 3) is not std::vector's (R1): pass (3, 2)") ==
          "to_dlpack: the shape (2, 3) is not std::vector's: pass (3, 2)");
    CHECK(text(no_backend, "no support for cuda:0: pass a back end") ==
          "to_dlpack: no support for cuda:0: pass device='cpu', or copy the data to the CPU with the library that "
          "made it");
    CHECK(text(shape, "array_traits::view has (R of (R2") == "to_dlpack: array_traits::view has (R of (R2");
    for (auto const code : {no_backend, not_accessible, alignment, strides, read_only, copy_needed, not_shareable,
                            dtype, bad_column, bad_descriptor}) {
        std::string const fix = ferry::python::detail::fix_in_python(code);
        CHECK((fix.size() > 5 && fix.size() < 100 && fix.find("::", 1) == std::string::npos));
        auto const full = text(code, (std::string(370, 'x') + ": f::g").c_str());  // a text of nearly the maximum
        CHECK(full == "to_dlpack: " + std::string(370, 'x') + fix);
        CHECK(text(code, "no: call ferry::f") == "to_dlpack: no" + fix);
    }
    auto& last = ferry::python::detail::registered_exception::last;
    auto* const before = last.get();
    ferry::python::register_exception<ferry::error>(PyExc_KeyError);
    CHECK(translated(PyExc_KeyError, [] { fail_with(dtype); }) == "test: the message");
    last.exchange(before);
}

TEST_CASE("R54: copy=False that needs a copy is a BufferError and a ValueError") {
    CHECK(translated(PyExc_BufferError, [] { fail_with(ferry::errc::copy_needed); }).find("message") !=
          std::string::npos);
    CHECK(translated(PyExc_ValueError, [] { fail_with(ferry::errc::copy_needed); }).find("message") !=
          std::string::npos);
    ferry::python::reference const one{ferry::python::copy_needed_class()}, two{ferry::python::copy_needed_class()};
    CHECK(one.get() == two.get());
    ferry::python::set_copy_needed_class(PyExc_BufferError);
    ferry::python::reference const other{ferry::python::copy_needed_class()};
    CHECK(other.get() == PyExc_BufferError);
    ferry::python::set_copy_needed_class(one.get());
}

TEST_CASE("R81: the other classes") {
    using enum ferry::errc;
    for (auto const code : {stream, argument, consumed, bad_descriptor, device_not_found})
        translated(PyExc_ValueError, [&] { fail_with(code); });
    for (auto const code : {exporter_gone, stale_handle, busy}) translated(PyExc_OSError, [&] { fail_with(code); });
    translated(PyExc_PermissionError, [] { fail_with(permission); });
    translated(PyExc_IndexError, [] { fail_with(out_of_range); });
    translated(PyExc_MemoryError, [] { fail_with(out_of_memory); });
    for (auto const code : {driver, context_lost}) translated(PyExc_RuntimeError, [&] { fail_with(code); });
    translated(PyExc_MemoryError, [] { throw std::bad_alloc{}; });
    CHECK(translated(PyExc_IndexError, [] { throw std::out_of_range{"where"}; }) == "where");
    CHECK(translated(PyExc_ValueError, [] { throw std::invalid_argument{"what"}; }) == "what");
    CHECK(translated(PyExc_BufferError, [] { throw std::runtime_error{"cannot"}; }) == "cannot");
    CHECK(translated(PyExc_RuntimeError, [] { throw std::exception{}; }) != "");
    CHECK(translated(PyExc_RuntimeError, [] { throw 7; }) != "");
}

namespace {

// [register]
// The exceptions of an array library.
struct array_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct unsupported_type : array_error {
    using array_error::array_error;
};

// Optional, in the initialisation of the module: without it, a std::runtime_error is a BufferError.
void register_exceptions() {
    ferry::python::register_exception<array_error>(PyExc_NotImplementedError);
    ferry::python::register_exception<unsupported_type>(PyExc_TypeError);  // after its base class
}
// [/register]

}  // namespace

TEST_CASE("R81: exceptions of an array library have the classes that it registers") {
    auto const throw_both = [](PyObject* base, PyObject* derived) {
        CHECK(translated(base, [] { throw array_error{"nulls"}; }) == "nulls");
        CHECK(translated(derived, [] { throw unsupported_type{"decimals"}; }) == "decimals");
    };
    throw_both(PyExc_BufferError, PyExc_BufferError);
    register_exceptions();
    throw_both(PyExc_NotImplementedError, PyExc_TypeError);
    register_exceptions();  // a second time
    throw_both(PyExc_NotImplementedError, PyExc_TypeError);
    ferry::python::register_exception<unsupported_type>(PyExc_KeyError);  // replaces the class
    throw_both(PyExc_NotImplementedError, PyExc_KeyError);
    // Other exceptions have the classes of ferry.
    CHECK(translated(PyExc_BufferError, [] { throw std::runtime_error{"cannot"}; }) == "cannot");
    CHECK(translated(PyExc_OSError, [] { ferry::python::raise(PyExc_OSError, "mine"); }) == "mine");
    translated(PyExc_RuntimeError, [] { throw 7; });
}

TEST_CASE("error_is_set keeps the Python error, and is a SystemError without one") {
    CHECK(translated(PyExc_OSError, [] { ferry::python::raise(PyExc_OSError, "mine"); }) == "mine");
    CHECK(translated(PyExc_SystemError, [] { throw ferry::python::error_is_set{}; }).find("without a Python error") !=
          std::string::npos);
}
