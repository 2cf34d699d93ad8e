#include <ferry/base/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

using ferry::errc;
using ferry::error;
using ferry::message;

TEST_CASE("the names of error codes are distinct") {
    struct {
        errc code;
        char const* name;
    } const all[] = {{errc::ok, "ok"},
                     {errc::version, "version"},
                     {errc::null_struct, "null_struct"},
                     {errc::rank, "rank"},
                     {errc::shape, "shape"},
                     {errc::strides, "strides"},
                     {errc::overflow, "overflow"},
                     {errc::null_data, "null_data"},
                     {errc::alignment, "alignment"},
                     {errc::dtype, "dtype"},
                     {errc::device, "device"},
                     {errc::not_accessible, "not_accessible"},
                     {errc::read_only, "read_only"},
                     {errc::flags, "flags"},
                     {errc::copy_needed, "copy_needed"},
                     {errc::not_shareable, "not_shareable"},
                     {errc::stream, "stream"},
                     {errc::no_backend, "no_backend"},
                     {errc::out_of_memory, "out_of_memory"},
                     {errc::out_of_range, "out_of_range"},
                     {errc::argument, "argument"},
                     {errc::consumed, "consumed"},
                     {errc::driver, "driver"},
                     {errc::context_lost, "context_lost"},
                     {errc::no_driver, "no_driver"},
                     {errc::foreign_pointer, "foreign_pointer"},
                     {errc::no_peer_access, "no_peer_access"},
                     {errc::capturing, "capturing"},
                     {errc::not_exportable, "not_exportable"},
                     {errc::same_process, "same_process"},
                     {errc::stale_handle, "stale_handle"},
                     {errc::already_mapped, "already_mapped"},
                     {errc::device_not_found, "device_not_found"},
                     {errc::no_context, "no_context"},
                     {errc::unsupported_platform, "unsupported_platform"},
                     {errc::exporter_gone, "exporter_gone"},
                     {errc::permission, "permission"},
                     {errc::bad_descriptor, "bad_descriptor"},
                     {errc::bad_column, "bad_column"},
                     {errc::foreign_exception, "foreign_exception"},
                     {errc::busy, "busy"}};
    CHECK(std::string{name(errc{static_cast<int>(std::size(all))})} == "unknown");  // the list above is all of them
    for (auto const& [code, text] : all) CHECK(std::string{name(code)} == text);
    CHECK(std::string{name(errc{-1})} == "unknown");
    CHECK(std::string{name(errc{1000})} == "unknown");
}

TEST_CASE("a message formats text and numbers, including the smallest and the largest") {
    message text{"a"};
    text << 'b' << " " << 0 << " " << -7 << " " << 42u << " " << INT64_MIN << " " << INT64_MAX << " " << UINT64_MAX;
    CHECK(std::string{text.c_str()} == "ab 0 -7 42 -9223372036854775808 9223372036854775807 18446744073709551615");
    CHECK(std::string{message{nullptr}.c_str()}.empty());
}

TEST_CASE("a message that is too long is truncated, and stays null-terminated") {
    std::string const many(10'000, 'x');
    message text{many.c_str()};
    auto const length = std::strlen(text.c_str());
    CHECK(length >= 300);
    CHECK(length < 1000);
    text << 1 << "more";
    CHECK(std::strlen(text.c_str()) == length);
    error const e{errc::shape, "ferry::f", text};
    CHECK(std::strlen(e.what()) == length);
}

TEST_CASE("an error contains the function that failed and the source location of the call") {
    auto const line = __LINE__ + 1;
    error const e{errc::rank, "ferry::f", message{"ndim is -1"}};
    CHECK(e.code() == errc::rank);
    CHECK(std::string{e.api()} == "ferry::f");
    CHECK(std::string{e.what()} == "ferry::f: ndim is -1");
    CHECK(std::string{e.text()} == "ndim is -1");
    CHECK(e.where().line() == static_cast<unsigned>(line));
    CHECK(std::strstr(e.where().file_name(), "error.cpp") != nullptr);
}

TEST_CASE("an error is a std::exception, and a copy has the same text") {
    std::string what;
    std::exception_ptr kept;
    try {
        ferry::detail::fail(errc::dtype, "ferry::g", message{"no"});
    } catch (std::exception const& e) {
        what = e.what();
        kept = std::current_exception();
    }
    CHECK(what == "ferry::g: no");
    try {
        std::rethrow_exception(kept);
    } catch (error const& e) {
        error copy = e;
        CHECK(copy.code() == errc::dtype);
        CHECK(copy.what() == what);
    }
}

TEST_CASE("the text of an error is within it, whatever the length of the function's name") {
    for (std::size_t length = 0; length <= 1000; ++length) {
        std::string const api(length, 'f'), whole = api + ": text";
        std::string_view const held = whole;
        ferry::error const e{errc::shape, api.c_str(), "text"};
        ferry::error const copy{e};
        for (auto const* const error : {&e, &copy}) {
            CHECK(error->what() == held.substr(0, 399));
            CHECK(error->text() ==
                  held.substr(0, 399).substr(std::min<std::size_t>(length + 2, std::strlen(e.what()))));
            CHECK(error->text() <= error->what() + std::strlen(error->what()));
        }
    }
    ferry::error const unnamed{errc::shape, nullptr, "text"};
    CHECK(std::string_view{unnamed.text()} == "text");
    CHECK(std::string_view{unnamed.api()}.empty());
}
