// Compiled with -fno-exceptions -fno-rtti: columns, their items and tensors.
#define DOCTEST_CONFIG_NO_EXCEPTIONS_BUT_WITH_ALL_ASSERTS
#include <ferry/column.hpp>
#include <ferry/column/metadata.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using ferry::errc;

std::int32_t const numbers[] = {1, 2, 3, 4, 5};
unsigned char const validity[] = {0b10110};
ferry::column_buffer const five[] = {{validity, 1}, {numbers, sizeof numbers}}, none[] = {{}};
ferry::column_parts const item{.format = "i", .name = "x", .length = 5, .buffers = five};
ferry::column_parts const row{.format = "+s", .length = 5, .buffers = none, .children = {&item, 1}};

template <class T>
concept has_functions_that_throw = requires(T const& c) { c.child(0); };

}  // namespace

TEST_CASE("a column is made, and its parts and items are read") {
    static_assert(!has_functions_that_throw<ferry::column> && !has_functions_that_throw<ferry::column_view>);
    auto owner = std::make_shared<int>(1);
    std::weak_ptr<int> const alive = owner;
    {
        auto const c = ferry::try_make_column(row, std::move(owner));
        REQUIRE(c);
        auto const x = c->try_field("x");
        REQUIRE(x);
        CHECK(*x->try_null_count() == 2);
        auto const values = x->try_values<std::int32_t>();
        REQUIRE(values);
        CHECK(**values->try_at(1) == 2);
        CHECK_FALSE((*values->try_at(0)).has_value());
        CHECK(values->try_at(5).error().code() == errc::out_of_range);
        CHECK(values->try_span().error().code() == errc::argument);
        CHECK(x->try_values<float>().error().code() == errc::dtype);
        CHECK(x->try_slice(4, 1)->length() == 1);
        CHECK(x->try_slice(4, 2).error().code() == errc::out_of_range);
        CHECK(c->try_child(1).error().code() == errc::out_of_range);
        CHECK(c->try_dictionary().error().code() == errc::argument);
        CHECK(ferry::try_validate(*c, ferry::validation::full));
        CHECK(!alive.expired());
    }
    CHECK(alive.expired());
    auto const wrong =
        ferry::try_make_column({.format = "+s", .length = 6, .buffers = none, .children = {&item, 1}}, {});
    REQUIRE_FALSE(wrong);
    CHECK(std::strstr(wrong.error().what(), "column.x: it has 5 items, and its parent needs 6") != nullptr);
}

TEST_CASE("values that do not belong together are an error") {
    std::int32_t const offsets[] = {0, 9};
    ferry::column_buffer const text[] = {{}, {offsets, sizeof offsets}, {"abc", 3}};
    auto const c = ferry::try_make_column({.format = "u", .length = 1, .buffers = text}, {});
    REQUIRE(c);
    CHECK(ferry::try_validate(*c));
    CHECK(ferry::try_validate(*c, ferry::validation::full).error().code() == errc::bad_column);
    CHECK(c->try_values<std::string_view>()->try_at(0).error().code() == errc::bad_column);
    auto const far = ferry::try_make_column(item, {}, {ferry::device_type::cuda, 0});
    REQUIRE(far);
    CHECK(far->try_null_count().error().code() == errc::not_accessible);
    CHECK(ferry::try_to_dlpack(*far).error().code() == errc::no_backend);
}

TEST_CASE("a column is exported as tensors, and made of them") {
    auto const c = ferry::try_make_column(item, {});
    REQUIRE(c);
    auto tensors = ferry::try_to_dlpack(*c);
    REQUIRE((tensors && tensors->validity));
    auto const again = ferry::try_from_tensors(std::move(tensors->data), std::move(tensors->validity));
    REQUIRE(again);
    CHECK(*again->try_null_count() == 2);
    CHECK(**again->try_values<std::int32_t>()->try_at(4) == 5);
    CHECK(ferry::try_to_tensor(*c).error().code() == errc::dtype);
    CHECK(ferry::try_from_tensors({}).error().code() == errc::consumed);
}

TEST_CASE("metadata is written and read") {
    ferry::metadata_builder b;
    CHECK(b.try_add("unit", "m"));
    CHECK(ferry::metadata_view::try_make(b.bytes())->find("unit") == "m");
    CHECK(ferry::metadata_view::try_make("abc").error().code() == errc::bad_column);
}
