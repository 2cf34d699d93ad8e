// Compiled with -fno-exceptions -fno-rtti: the descriptor as bytes and as JSON.
#define DOCTEST_CONFIG_NO_EXCEPTIONS_BUT_WITH_ALL_ASSERTS
#include <ferry/wire/binary.hpp>
#include <ferry/wire/check.hpp>
#include <ferry/wire/json.hpp>
#include <support/descriptors.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <span>

TEST_CASE("a descriptor is written as bytes and as JSON, and read") {
    for (auto const& [name, d] : support::descriptors()) {
        INFO(name);
        CHECK(ferry::wire::try_check(d));
        auto const bytes = ferry::wire::try_to_bytes(d);
        auto const text = ferry::wire::try_to_json(d);
        REQUIRE((bytes && text));
        auto const from_bytes = ferry::wire::try_from_bytes(*bytes);
        REQUIRE(from_bytes);
        CHECK(*from_bytes == d);
    }
}

TEST_CASE("every truncated document is an error, and the first error is returned") {
    auto const d = support::a_column();
    auto const bytes = ferry::wire::try_to_bytes(d);
    REQUIRE(bytes);
    int accepted = 0;
    for (std::size_t n = 0; n < bytes->size(); ++n)
        accepted += !!ferry::wire::try_from_bytes(std::span{*bytes}.first(n));
    CHECK(accepted == 0);
    CHECK(std::strstr(ferry::wire::try_from_bytes({}).error().what(), "truncated: the magic") != nullptr);
    auto wrong = d;
    wrong.major = ferry::wire::major_version + 1;
    CHECK(ferry::wire::try_check(wrong).error().code() == ferry::errc::bad_descriptor);
    CHECK_FALSE(ferry::wire::try_to_bytes(wrong));
    CHECK_FALSE(ferry::wire::try_to_json(wrong));
}
