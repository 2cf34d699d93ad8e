// Conversions of columns to other representations: values, shared buffers, and what does not fit.
#include <ferry/column.hpp>
#include <ferry/column/as.hpp>
#include <ferry/column/make_struct.hpp>
#include <ferry/column/metadata.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/random_columns.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::column_parts;
using ferry::column_view;
using ferry::errc;
using support::both_fail;
using support::column_maker;

namespace {

template <class T>
column numbers(char const* format, std::vector<T> const& values, std::vector<bool> const& valid = {}) {
    struct memory {
        std::vector<T> values;
        std::vector<unsigned char> bits;
    };
    auto owner = std::make_shared<memory>(memory{values, std::vector<unsigned char>(valid.size() / 8 + 1)});
    for (std::size_t i = 0; i < valid.size(); ++i)
        if (valid[i]) owner->bits[i / 8] = static_cast<unsigned char>(owner->bits[i / 8] | 1u << i % 8);
    column_buffer const buffers[] = {valid.empty() ? column_buffer{} : column_buffer{owner->bits.data(), 1},
                                     {owner->values.data(), static_cast<std::int64_t>(values.size() * sizeof(T))}};
    return ferry::make_column(
        {.format = format, .name = "x", .length = static_cast<std::int64_t>(values.size()), .buffers = buffers}, owner);
}

/// An empty column of a type with one child.
column type_of(char const* format, char const* child) {
    column_buffer const none[3] = {};
    column_parts const item{.format = child, .buffers = {none, 2}};
    auto const count = static_cast<std::size_t>(ferry::layout_of(*ferry::parse_format(format)).buffer_count);
    return ferry::make_column({.format = format, .buffers = {none, count}, .children = {&item, 1}}, {});
}

/// The values of random columns may be invalid, as times are; then those of the result are.
void check_valid(column const& c, column const& out) {
    if (ferry::try_validate(c.view(), ferry::validation::full))
        CHECK(ferry::try_validate(out.view(), ferry::validation::full));
}

void check_same_values(column const& c, char const* format) {
    INFO(std::string{c.format()}, " to ", format);
    auto const out = ferry::as(c, format);
    CHECK(out.format() == format);
    CHECK(out.name() == c.name());
    CHECK(support::shown(out.view()) == support::shown(c.view()));
    CHECK(out.null_count() == c.null_count());
    check_valid(c, out);
}

}  // namespace

TEST_CASE("text, bytes and lists of any kind, sliced and nested, have the same values in each other layout") {
    char const* const groups[][4] = {{"u", "U", "vu", nullptr}, {"z", "Z", "vz", nullptr}, {"+l", "+L", "+vl", "+vL"}};
    unsigned seed = 0;
    for (auto const& group : groups)
        for (auto const* from : group)
            for (auto const* to : group)
                for (std::int64_t offset = 0; from != nullptr && to != nullptr && offset < 18; ++offset) {
                    column_maker maker{++seed};
                    INFO("seed ", seed);
                    auto const c = maker.make(from, maker.below(offset == 0 ? 3 : 200), 3, offset);
                    check_same_values(c, to);
                }
}

TEST_CASE("integers that fit have the same values, and buffers of the same width are shared") {
    auto const c = numbers<std::int32_t>("i", {1, 127, 0, 1000, 5}, {true, true, true, false, true});
    for (auto const* to : {"c", "C", "s", "S", "i", "I", "l", "L"}) {
        auto const wide = ferry::as(ferry::as(c, to), "i");
        CHECK(support::shown(wide.view()) == support::shown(c.view()));
    }
    auto const u = ferry::as(c.slice(1, 3), "l");
    CHECK(*u.values<std::int64_t>()[0] == 127);
    CHECK(!u.values<std::int64_t>()[2]);
    auto const same = ferry::as(c, "i");
    CHECK(same.view().buffers()[1].data == c.view().buffers()[1].data);
}

TEST_CASE("a value that does not fit is an error with its item, unless it is null") {
    std::vector<std::int64_t> values(200, 7);
    values[150] = 128;
    auto const refused = [](column const& c, char const* to, char const* item) {
        both_fail(
            errc::out_of_range, [&] { static_cast<void>(ferry::as(c, to)); }, [&] { return ferry::try_as(c, to); },
            {"x: item ", item, "choose a wider type"});
    };
    refused(numbers("l", values), "c", "150");
    CHECK(*ferry::as(numbers("l", values), "C").values<std::uint8_t>()[150] == 128);
    for (auto const* to : {"C", "S", "I", "L"}) refused(numbers<std::int32_t>("i", {1, -1}), to, "1");
    for (auto const* to : {"c", "s", "i", "l"})
        refused(numbers<std::uint64_t>("L", {1, 2, (std::numeric_limits<std::uint64_t>::max)()}), to, "2");
    refused(numbers<std::uint16_t>("S", {65535}), "s", "0");
    refused(numbers<std::int64_t>("d:18,2,64", {-12345, 99'999'999'999}), "d:9,2,32", "1");
    refused(numbers<std::int64_t>("d:18,2,64", {99, -100}), "d:2,2,64", "1");
    CHECK(ferry::as(numbers<std::int64_t>("d:18,2,64", {99, -99}), "d:2,2,32").length() == 2);
}

TEST_CASE("decimals keep their values in other widths") {
    auto const c = numbers<std::int32_t>("d:9,2,32", {0, -1, 999'999'999, -999'999'999});
    for (auto const* to : {"d:18,2,64", "d:38,2", "d:76,2,256"}) {
        auto const wide = ferry::as(c, to);
        CHECK(support::shown(ferry::as(wide, "d:9,2,32")) == support::shown(c.view()));
    }
    CHECK((*ferry::as(c, "d:18,2,64").values<ferry::decimal<64>>()[3]).low() == -999'999'999);
}

TEST_CASE("a dictionary is decoded to its values, and its indices and values are converted") {
    unsigned seed = 0;
    int decoded = 0;
    for (int turn = 0; turn < 200; ++turn) {
        column_maker maker{++seed};
        auto const c = maker.make("dictionary", maker.below(150), 3);
        INFO("seed ", seed);
        auto const values = c.view().dictionary();
        if (values.has_dictionary()) continue;  // a request for it is one for other indices
        auto const out = ferry::try_as(c, values);
        if (!out) {
            CHECK(out.error().code() == errc::dtype);  // nulls among unions and runs
            CHECK(c.null_count() > 0);
            continue;
        }
        ++decoded;
        CHECK(!out->has_dictionary());
        check_valid(c, *out);
        auto before = support::shown(c.view());
        for (auto& text : before)
            if (text.starts_with('#')) text.erase(0, 1);
        CHECK(support::shown(out->view()) == before);
    }
    CHECK(decoded > 100);
}

TEST_CASE("an index outside of a dictionary is an error, unless it is null") {
    column_buffer const none[3] = {};
    column_parts const values{.format = "u", .length = 0, .buffers = none};
    std::int8_t const indices[] = {0, -1};
    unsigned char const bits[] = {0};
    column_buffer const buffers[] = {{}, {indices, 2}}, of_nulls[] = {{bits, 1}, {indices, 2}};
    column_parts parts{.format = "c", .name = "x", .length = 2, .buffers = buffers, .dictionary = &values};
    auto const bad = ferry::make_column(parts, {});
    both_fail(
        errc::bad_column, [&] { static_cast<void>(ferry::as(bad, "u")); }, [&] { return ferry::try_as(bad, "u"); },
        {"x: item 0 has an index outside of its dictionary of 0 values"});
    parts.buffers = of_nulls;
    CHECK(ferry::as(ferry::make_column(parts, {}), "vu").null_count() == 2);
}

TEST_CASE("random trees of one type are unchanged, and children are converted") {
    for (unsigned seed = 0; seed < 100; ++seed) {
        column_maker maker{seed};
        auto const c = maker.make(maker.any_format(3), maker.below(90), 3);
        auto const out = ferry::as(c, c.view());
        auto const v = out.view();
        CHECK(&v.node() == &c.view().node());
    }
    std::int32_t const offsets[] = {0, 1, 3};
    column_buffer const buffers[] = {{}, {offsets, sizeof offsets}};
    std::int16_t const items[] = {1, 2, 300};
    column_buffer const item_buffers[] = {{}, {items, sizeof items}};
    column_parts const child{.format = "s", .name = "item", .length = 3, .buffers = item_buffers};
    auto const c =
        ferry::make_column({.format = "+l", .name = "x", .length = 2, .buffers = buffers, .children = {&child, 1}}, {});
    auto const out = ferry::as(c, type_of("+vL", "l"));
    CHECK(out.format() == "+vL");
    CHECK(*out.child(0).values<std::int64_t>()[2] == 300);
    both_fail(
        errc::out_of_range, [&] { static_cast<void>(ferry::as(c, type_of("+L", "c"))); },
        [&] { return ferry::try_as(c, type_of("+L", "c")); }, {"x[]: item 2"});
}

TEST_CASE("text and validity are shared where the bytes agree") {
    std::int32_t const offsets[] = {0, 1, 3, 20};
    unsigned char const bits[] = {0xff};
    char const text[] = "abcdefghijklmnopqrst";
    column_buffer const buffers[] = {{bits, 1}, {offsets, sizeof offsets}, {text, 20}};
    auto const c = ferry::make_column({.format = "u", .name = "x", .length = 3, .buffers = buffers}, {});
    auto const large = ferry::as(c, "U"), view = ferry::as(c, "vu");
    CHECK(large.view().buffers()[2].data == text);
    CHECK(large.view().buffers()[0].data == bits);
    CHECK(view.view().buffers()[2].data == text);
    CHECK(*view.values<std::string_view>()[2] == "defghijklmnopqrst");
    auto const bytes = ferry::as(view, "vz");
    CHECK(bytes.view().buffers()[1].data == view.view().buffers()[1].data);
    CHECK(support::for_each_failing_allocation([&](int) { static_cast<void>(ferry::as(view, "U")); }) > 5);
}

TEST_CASE("conversions that lose values, and invalid columns, name the node and the cure") {
    auto const c = numbers<std::int32_t>("i", {1, 2});
    for (auto const* to : {"u", "g", "b", "+l", "tdD", "d:9,2,32"})
        both_fail(
            errc::dtype, [&] { static_cast<void>(ferry::as(c, to)); }, [&] { return ferry::try_as(c, to); },
            {"x: format `i` cannot be converted to format "});
    both_fail(
        errc::argument, [&] { static_cast<void>(ferry::as(c, "wrong")); }, [&] { return ferry::try_as(c, "wrong"); },
        {"not a format of Arrow"});
    std::int64_t const huge[] = {0, std::int64_t{1} << 31}, back[] = {0, 4, 2, 5};
    char const text[8] = {};
    column_buffer const buffers[] = {{}, {huge, sizeof huge}, {text, -1}};
    auto const large = ferry::make_column({.format = "U", .name = "x", .length = 1, .buffers = buffers}, {});
    both_fail(
        errc::overflow, [&] { static_cast<void>(ferry::as(large, "u")); }, [&] { return ferry::try_as(large, "u"); },
        {"x: 2147483648 bytes or items", "64 bits"});
    column_buffer const decreasing[] = {{}, {back, sizeof back}, {text, 8}};
    auto const bad = ferry::make_column({.format = "U", .name = "x", .length = 3, .buffers = decreasing}, {});
    for (auto const* to : {"u", "vu"})
        both_fail(
            errc::bad_column, [&] { static_cast<void>(ferry::as(bad, to)); }, [&] { return ferry::try_as(bad, to); },
            {"x: its offsets decrease"});
    std::int64_t const beyond[] = {0, 9};
    column_buffer const too_long[] = {{}, {beyond, sizeof beyond}, {text, 8}};
    auto const end = ferry::make_column({.format = "U", .name = "x", .length = 1, .buffers = too_long}, {});
    both_fail(
        errc::bad_column, [&] { static_cast<void>(ferry::as(end, "u")); }, [&] { return ferry::try_as(end, "u"); },
        {"x: its offsets go from 0 to 9, expected 0 to 8"});
    column_buffer const items[] = {{}, {text, 8}};
    column_parts const child{.format = "c", .length = 8, .buffers = items};
    std::int32_t const start = 4, size = 5;
    column_buffer const views[] = {{}, {&start, 4}, {&size, 4}};
    auto const list =
        ferry::make_column({.format = "+vl", .name = "x", .length = 1, .buffers = views, .children = {&child, 1}}, {});
    for (auto const* to : {"+l", "+vL"})
        both_fail(
            errc::bad_column, [&] { static_cast<void>(ferry::as(list, to)); }, [&] { return ferry::try_as(list, to); },
            {"x: item 0 has 5 values from 4 on"});
}

TEST_CASE("a length whose size in bytes overflows is std::bad_alloc, also where all of it is requested") {
    column_buffer const buffers[] = {{}, {"", -1}};
    column_parts const nulls{.format = "n", .length = 5};
    auto const type = numbers<std::int64_t>("l", {});
    for (auto const length : {std::int64_t{1} << 61, std::int64_t{1} << 62}) {
        auto const bytes = ferry::make_column({.format = "c", .length = length, .buffers = buffers}, {});
        auto const encoded =
            ferry::make_column({.format = "c", .length = length, .buffers = buffers, .dictionary = &nulls}, {});
        for (auto const* to : {"l", "L"}) CHECK_THROWS_AS(static_cast<void>(ferry::as(bytes, to)), std::bad_alloc);
        CHECK_THROWS_AS(static_cast<void>(ferry::as(encoded, "n")), std::bad_alloc);
        CHECK(ferry::try_as(encoded, "n").error().code() == errc::out_of_memory);
        CHECK_THROWS_AS(static_cast<void>(ferry::as_requested(bytes, type)), std::bad_alloc);
    }
}

TEST_CASE("an item that the null count calls valid must fit, whatever its bit is") {
    unsigned char const bits = 0b101;
    std::int64_t const values[] = {1, 99'999'999'999, 3};
    column_buffer const buffers[] = {{&bits, 1}, {values, sizeof values}};
    for (auto const& [from, to] : {std::pair{"l", "c"}, std::pair{"d:18,0,64", "d:9,0,32"}}) {
        column_parts parts{.format = from, .name = "x", .length = 3, .null_count = 0, .buffers = buffers};
        auto const c = ferry::make_column(parts, {});
        both_fail(
            errc::out_of_range, [&] { static_cast<void>(ferry::as(c, to)); }, [&] { return ferry::try_as(c, to); },
            {"x: item 1"});
        parts.null_count = 1;
        CHECK(ferry::as(ferry::make_column(parts, {}), to).null_count() == 1);
    }
}

TEST_CASE("what no item needs is not read: null buffers, items of no bytes, and text of nulls") {
    std::int32_t const empty[] = {5, 5};
    column_buffer const nowhere[] = {{}, {empty, sizeof empty}, {nullptr, -1}};
    auto const text = ferry::make_column({.format = "u", .length = 1, .buffers = nowhere}, {});
    for (auto const* to : {"U", "vu"}) CHECK(*ferry::as(text, to).values<std::string_view>()[0] == "");
    std::int64_t const huge[] = {0, std::int64_t{1} << 31};
    unsigned char const none_valid = 0;
    column_buffer const large[] = {{&none_valid, 1}, {huge, sizeof huge}, {huge, -1}};
    auto const null = ferry::as(ferry::make_column({.format = "U", .length = 1, .buffers = large}, {}), "vu");
    CHECK(!null.values<std::string_view>()[0]);
    signed char const indices[] = {0, 0};
    column_buffer const its[] = {{}, {indices, 2}}, items[] = {{}, {nullptr, 0}};
    column_parts const values{.format = "w:0", .length = 1, .buffers = items};
    auto const c = ferry::make_column({.format = "c", .length = 2, .buffers = its, .dictionary = &values}, {});
    CHECK(ferry::as(c, "w:0").length() == 2);
}

TEST_CASE("a column on a device is refused, and the message names the cure; its own type is not") {
    column_buffer const buffers[] = {{}, {reinterpret_cast<void const*>(64), 8}};
    auto const c = ferry::make_column({.format = "i", .name = "x", .length = 2, .buffers = buffers}, {},
                                      {ferry::device_type::cuda, 0});
    CHECK(ferry::as(c, "i").device() == c.device());
    both_fail(
        errc::not_accessible, [&] { static_cast<void>(ferry::as(c, "l")); }, [&] { return ferry::try_as(c, "l"); },
        {"to("});
}

TEST_CASE("what a consumer requests is converted as far as no value is lost, and the rest is unchanged") {
    auto const c = numbers<std::int64_t>("l", {1, 300});
    CHECK(ferry::as_requested(c, numbers<std::int16_t>("s", {})).format() == "s");
    for (auto const* to : {"c", "f", "b"}) {  // too narrow, or no conversion
        INFO(to);
        auto const same = ferry::as_requested(c, numbers<std::int8_t>(to, {}));
        CHECK(same.format() == "l");
        CHECK(same.view().buffers()[1].data == c.view().buffers()[1].data);
    }
    ferry::column const fields[] = {c, c, numbers<std::int64_t>("l", {1, 2})};
    ferry::column const wanted[] = {numbers<std::int8_t>("c", {}), numbers<std::int32_t>("i", {}),
                                    numbers<std::int8_t>("c", {})};
    auto const rows = ferry::as_requested(ferry::make_struct(fields), ferry::make_struct(wanted));
    CHECK(rows.child(0).format() == "l");
    CHECK(rows.child(1).format() == "i");
    CHECK(rows.child(2).format() == "c");
    CHECK(ferry::try_validate(rows.view(), ferry::validation::full));
    CHECK(support::for_each_failing_allocation([&](int) {
              static_cast<void>(ferry::as_requested(ferry::make_struct(fields), ferry::make_struct(wanted)));
          }) > 5);
}

TEST_CASE("a requested schema does not convert device memory, or the storage of another extension type") {
    column_buffer const buffers[] = {{}, {reinterpret_cast<void const*>(64), 8}};
    auto const on_device = ferry::make_column({.format = "i", .name = "x", .length = 2, .buffers = buffers}, {},
                                              {ferry::device_type::cuda, 0});
    CHECK(ferry::as_requested(on_device, numbers<std::int64_t>("l", {})).format() == "i");
    auto const of = [](char const* format, std::string_view extension) {
        column_buffer const none[2] = {};
        return ferry::make_column(
            {.format = format,
             .buffers = none,
             .metadata = ferry::metadata_builder{}.add("ARROW:extension:name", extension).bytes()},
            {});
    };
    CHECK(ferry::as_requested(of("c", "arrow.bool8"), numbers<std::int64_t>("l", {})).format() == "c");
    CHECK(ferry::as_requested(of("c", "a"), of("l", "b")).format() == "c");
    auto const same = ferry::as_requested(of("c", "a"), of("l", "a"));
    CHECK(same.format() == "l");
    CHECK(ferry::metadata_view{same.view().metadata()}.find("ARROW:extension:name") == "a");
}

TEST_CASE("an allocation that fails in any conversion leaves nothing behind, and the column as it was") {
    char const* const pairs[][2] = {{"u", "vu"}, {"vu", "U"}, {"+vl", "+L"}, {"+l", "+vL"}, {"dictionary", ""}};
    for (auto const& [from, to] : pairs) {
        INFO(from, " to ", to);
        column_maker maker{7};
        auto const c = maker.make(from, 40, 2);
        auto const shown = support::shown(c.view());
        auto const type = c.has_dictionary() ? c.view().dictionary() : c.view();
        CHECK(support::for_each_failing_allocation(
                  [&](int) { static_cast<void>(*to != '\0' ? ferry::as(c, to) : ferry::as(c, type)); }) > 3);
        CHECK(support::shown(c.view()) == shown);
    }
}
