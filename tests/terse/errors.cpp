// FERRY_TERSE_ERRORS: an error has its code and the name of a field, and texts of the user remain.
#include <ferry/base/catch_into.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/error.hpp>
#include <ferry/column/detail/path.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/wire/check.hpp>

#include <support/descriptors.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <string>
#include <type_traits>
#include <utility>

using ferry::errc;

namespace {

std::string text_of(ferry::error const& e) { return e.what(); }

}  // namespace

static_assert(std::is_empty_v<ferry::message>);

TEST_CASE("an error of ferry consists of the function and the code") {
    auto const got = ferry::try_from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr));
    REQUIRE(!got);
    CHECK(got.error().code() == errc::null_struct);
    CHECK(text_of(got.error()) == "ferry::from_dlpack: null_struct");
    CHECK(std::string{got.error().text()} == "null_struct");
    support::fails(errc::null_struct,
                   [] { static_cast<void>(ferry::from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr))); });
}

TEST_CASE("the name of a field remains") {
    auto d = support::describe(support::host_memory(4), {.dtype = {ferry::type_code::float_, 32}, .shape = {-1}});
    auto const checked = ferry::wire::try_check(d);
    REQUIRE(!checked);
    CHECK(checked.error().code() == errc::bad_descriptor);
    CHECK(std::string{checked.error().text()} == "/tensor/shape/0");
    ferry::detail::column_path const path{"orders"};
    CHECK(std::string{ferry::detail::node_error(path, ferry::message{"it has "} << 2 << " items").c_str()} == "orders");
}

TEST_CASE("a decision to refuse has a reason and no sentence") {
    auto const d =
        ferry::negotiate({.device = {ferry::device_type{99}, 0}, .type = {ferry::type_code::float_, 32}}, {});
    CHECK(d.action == ferry::action::refuse);
    CHECK(d.reason == errc::device);
    CHECK(std::string{d.text}.empty());
}

TEST_CASE("texts of the user, and texts of other exceptions, remain") {
    CHECK(text_of({errc::argument, "mine", "the recording is running"}) == "mine: the recording is running");
    CHECK(text_of({errc::argument, "mine", ferry::message{"a"} << 1}) == "mine: argument");
    ferry::inplace_text const name = ferry::inplace_text{} << ferry::data_type{ferry::type_code::float_, 32};
    CHECK(text_of({errc::argument, "mine", name}) == "mine: float32");
    errc code{};
    ferry::inplace_text text;
    CHECK(!ferry::catch_into(code, text, [] { throw 1; }));
    CHECK(std::string{text.c_str()} == "an exception that is not a std::exception");
}
