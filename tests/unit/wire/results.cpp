// D17: the functions of wire/ that return a result. The tests of the other files compare every error with that of the
// function that throws.
#include <ferry/wire/binary.hpp>
#include <ferry/wire/check.hpp>
#include <ferry/wire/json.hpp>

#include <support/allocation_failure.hpp>
#include <support/descriptors.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <variant>
#include <vector>

using namespace ferry::wire;
using ferry::errc;
using support::both_fail;

TEST_CASE("functions that return a result return the value that the functions that throw return") {
    for (auto const& [name, d] : support::descriptors()) {
        INFO(name);
        CHECK(try_check(d));
        auto const bytes = try_to_bytes(d);
        REQUIRE(bytes);
        CHECK(*bytes == to_bytes(d));
        auto const text = try_to_json(d);
        REQUIRE(text);
        CHECK(*text == to_json(d));
        auto const from_bytes = try_from_bytes(*bytes);
        REQUIRE(from_bytes);
        CHECK(*from_bytes == d);
    }
}

TEST_CASE("an invalid descriptor is not written: the results have the errors of the functions that throw") {
    auto d = support::a_column();
    std::get<node>(d.root).children[1].buffers[1].length = 5000;
    std::initializer_list<char const*> const texts = {"/column/children/1/buffers/1"};
    both_fail(errc::bad_descriptor, [&] { check(d); }, [&] { return try_check(d); }, texts);
    both_fail(errc::bad_descriptor, [&] { static_cast<void>(to_bytes(d)); }, [&] { return try_to_bytes(d); }, texts);
    both_fail(errc::bad_descriptor, [&] { static_cast<void>(to_json(d)); }, [&] { return try_to_json(d); }, texts);
}

TEST_CASE("the first error of a document is returned, and nothing leaks") {
    auto const d = support::a_column();
    auto const bytes = to_bytes(d);
    int live = 0;
    {
        support::allocation_window window;
        for (std::size_t size = 0; size < bytes.size(); ++size)
            if (try_from_bytes(std::span{bytes}.first(size))) ++live;
        live += window.live();
    }
    CHECK(live == 0);
}

TEST_CASE("a failed allocation is an error of the result") {
    auto const d = support::a_column();
    auto const bytes = to_bytes(d);
    int failures = 0;
    auto const count = [&](auto const& r) { failures += !r && r.error().code() == errc::out_of_memory; };
    int const injected = support::for_each_failing_allocation([&](int) { count(try_to_bytes(d)); }) +
                         support::for_each_failing_allocation([&](int) { count(try_from_bytes(bytes)); }) +
                         support::for_each_failing_allocation([&](int) { count(try_to_json(d)); });
    CHECK(injected > 2);
    CHECK(failures == injected);
}
