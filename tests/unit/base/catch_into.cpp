#include <ferry/base/catch_into.hpp>

#include <doctest/doctest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

using ferry::errc;

TEST_CASE("catch_into converts every exception to a code and a text (D11)") {
    struct {
        void (*f)();
        errc code;
        char const* text;
    } const rows[] = {
        {[] {}, errc::ok, ""},
        {[] { throw ferry::error{errc::rank, "ferry::f", "ndim is -1"}; }, errc::rank, "ferry::f: ndim is -1"},
        {[] { throw std::bad_alloc{}; }, errc::out_of_memory, "std::bad_alloc"},
        {[] { throw std::runtime_error{"other"}; }, errc::foreign_exception, "other"},
        {[] { throw 3; }, errc::foreign_exception, "an exception that is not a std::exception"},
    };
    for (auto const& [f, code, text] : rows) {
        auto got = errc::driver;
        ferry::message said{"of an earlier call"};
        CHECK(ferry::catch_into(got, said, f) == (code == errc::ok));
        CHECK(got == code);
        CHECK(std::string{said.c_str()} == text);
    }
    static_assert(noexcept(ferry::catch_into(std::declval<errc&>(), std::declval<ferry::message&>(), [] {})));
}
