// Full validation: each kind of invalid value, and the corrected column.
#include <ferry/column.hpp>
#include <ferry/column/detail/utf8.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::column_parts;
using ferry::errc;
using ferry::validation;
using support::fails;

namespace {

/// Values in memory of exactly their size, kept until the end of the test.
class pool {
   public:
    template <class T>
    column_buffer operator()(std::initializer_list<T> values) {
        auto kept = std::make_shared<std::vector<T>>(values);
        kept_.push_back(kept);
        return {kept->data(), static_cast<std::int64_t>(values.size() * sizeof(T))};
    }

   private:
    std::vector<std::shared_ptr<void>> kept_;
};

void passes(column_parts const& parts) {
    CHECK_NOTHROW(ferry::validate(ferry::make_column(parts, nullptr), validation::full));
    CHECK(ferry::try_validate(ferry::make_column(parts, nullptr), validation::full));
}
void refused(column_parts const& parts, char const* why) {
    auto const c = ferry::make_column(parts, nullptr);
    CHECK_NOTHROW(ferry::validate(c));
    CHECK(ferry::try_validate(c));
    support::both_fail(
        errc::bad_column, [&] { ferry::validate(c, validation::full); },
        [&] { return ferry::try_validate(c, validation::full); }, {why});
}
unsigned char operator""_b(unsigned long long bits) { return static_cast<unsigned char>(bits); }
column_buffer none{};

}  // namespace

TEST_CASE("a stated null count must be that of the validity bits") {
    pool keep;
    column_buffer const buffers[] = {keep({0b101_b}), keep({1, 2, 3})};
    passes({.format = "i", .length = 3, .null_count = 1, .buffers = buffers});
    refused({.format = "i", .length = 3, .null_count = 2, .buffers = buffers},
            "column: its null count is 2, expected 1");
    passes({.format = "n", .length = 3, .null_count = 2});  // Arrow ignores the count of a null column
}

TEST_CASE("offsets do not decrease, also at nulls, and end within their data") {
    pool keep;
    column_buffer const data = keep({'a', 'b', 'c', 'd'});
    for (char const* format : {"u", "z"}) {
        column_buffer const good[] = {none, keep({0, 2, 2, 4}), data},
                            back[] = {keep({0b101_b}), keep({0, 3, 2, 4}), data},
                            far[] = {none, keep({0, 2, 2, 5}), data}, negative[] = {none, keep({-1, 2, 2, 4}), data},
                            null[] = {none, keep({0, 2, 2, 4}), {nullptr, -1}};
        passes({.format = format, .length = 3, .buffers = good});
        refused({.format = format, .length = 3, .buffers = back}, "offset 2 is 2, expected at least 3");
        refused({.format = format, .length = 3, .buffers = far}, "end at 5, expected at most 4");
        refused({.format = format, .length = 3, .buffers = negative}, "offset 0 is -1");
        refused({.format = format, .length = 3, .buffers = null}, "null");
    }
    column_buffer const large[] = {none, keep({std::int64_t{0}, std::int64_t{1} << 40}), data};
    refused({.format = "U", .length = 1, .buffers = large}, "expected at most 4");
    column_buffer const numbers[] = {none, keep({1, 2, 3})};
    column_parts const item{.format = "i", .name = "item", .length = 3, .buffers = numbers};
    column_buffer const list[] = {none, keep({0, 4})};
    refused({.format = "+l", .name = "rows", .length = 1, .buffers = list, .children = {&item, 1}},
            "rows: its offsets end at 4, expected at most 3");
}

TEST_CASE("strings are UTF-8 unless they are null") {
    pool keep;
    column_buffer const data = keep({'a', static_cast<char>(0xff)});
    column_buffer const bad[] = {none, keep({0, 1, 2}), data}, hidden[] = {keep({0b01_b}), keep({0, 1, 2}), data};
    refused({.format = "u", .length = 2, .buffers = bad}, "item 1: it is not UTF-8");
    passes({.format = "u", .length = 2, .buffers = hidden});
    passes({.format = "z", .length = 2, .buffers = bad});
    using namespace std::string_view_literals;
    auto const utf8 = [](std::string_view text) {
        return ferry::detail::is_utf8(reinterpret_cast<unsigned char const*>(text.data()),
                                      static_cast<std::int64_t>(text.size()));
    };
    for (auto const text :
         {""sv, "ascii, long enough for a word"sv, "\0"sv, "\xc2\x80"sv, "\xdf\xbf"sv, "\xe0\xa0\x80"sv,
          "\xed\x9f\xbf"sv, "\xee\x80\x80"sv, "\xef\xbf\xbf"sv, "\xf0\x90\x80\x80"sv, "\xf4\x8f\xbf\xbf"sv})
        CHECK(utf8(text));
    for (auto const text : {"\x80"sv, "\xc0\x80"sv, "\xc1\xbf"sv, "\xc2"sv, "\xc2 "sv, "\xe0\x9f\xbf"sv, "\xe0\xa0"sv,
                            "\xed\xa0\x80"sv, "\xf0\x8f\xbf\xbf"sv, "\xf4\x90\x80\x80"sv, "\xf5\x80\x80\x80"sv,
                            "\xf0\x90\x80"sv, "\xe1\x80\xc0"sv, "12345678\xff"sv})
        CHECK_FALSE(utf8(text));
}

TEST_CASE("views stay within their buffers, whose text begins with their prefix") {
    pool keep;
    struct view {
        std::int32_t size;
        char text[4];
        std::int32_t buffer, offset;
    };
    column_buffer const data = keep({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm'}),
                        sizes = keep({std::int64_t{13}});
    auto const with = [&](view v) { return std::vector<column_buffer>{none, keep({v}), data, sizes}; };
    auto const good = with({13, {'a', 'b', 'c', 'd'}, 0, 0});
    passes({.format = "vu", .length = 1, .buffers = good});
    struct {
        view v;
        char const* why;
    } const bad[] = {{{13, {'a', 'b', 'c', 'x'}, 0, 0}, "prefix"},
                     {{13, {'b', 'c', 'd', 'e'}, 0, 1}, "outside"},
                     {{13, {}, 1, 0}, "does not exist"},
                     {{13, {}, -1, 0}, "does not exist"},
                     {{13, {}, 0, -1}, "outside"},
                     {{-1, {}, 0, 0}, "negative"},
                     {{2, {'a', 'b', 'c', 0}, 0, 0}, "not 0"},
                     {{1, {static_cast<char>(0xff)}, 0, 0}, "UTF-8"}};
    for (auto const& [v, why] : bad) {
        auto const buffers = with(v);
        refused({.format = "vu", .length = 1, .buffers = buffers}, why);
    }
    column_buffer const lengths[] = {none, keep({view{0, {}, 0, 0}}), data, keep({std::int64_t{-1}})};
    refused({.format = "vz", .length = 1, .buffers = lengths}, "-1 bytes");
    column_buffer const short_data[] = {none, keep({view{0, {}, 0, 0}}), data, keep({std::int64_t{14}})};
    refused({.format = "vz", .length = 1, .buffers = short_data}, "holds 13 bytes, needs 14");
}

TEST_CASE("indices are within the dictionary, ranges within the child, and keys are not null") {
    pool keep;
    column_buffer const numbers[] = {none, keep({1, 2, 3})}, nulls[] = {keep({0b011_b}), keep({1, 2, 3})};
    column_parts const three{.format = "i", .length = 3, .buffers = numbers},
        with_null{.format = "i", .length = 3, .buffers = nulls};
    column_buffer const indices[] = {keep({0b011_b}), keep({0_b, 2_b, 9_b})}, beyond[] = {none, keep({0_b, 3_b})};
    passes({.format = "C", .length = 3, .buffers = indices, .dictionary = &three});
    refused({.format = "C", .length = 2, .buffers = beyond, .dictionary = &three}, "item 1: its index");
    column_buffer const ranges[] = {none, keep({0, 2}), keep({3, 2})}, fit[] = {none, keep({2, 0}), keep({1, 2})};
    refused({.format = "+vl", .length = 2, .buffers = ranges, .children = {&three, 1}}, "item 1");
    passes({.format = "+vl", .length = 2, .buffers = fit, .children = {&three, 1}});
    column_buffer const map[] = {none, keep({0, 3})};
    for (bool const null_key : {false, true}) {
        column_parts const pair[] = {null_key ? with_null : three, with_null};
        column_parts const entries{
            .format = "+s", .name = "entries", .length = 3, .buffers = {&none, 1}, .children = pair};
        column_parts const whole{.format = "+m", .length = 1, .buffers = map, .children = {&entries, 1}};
        if (null_key) refused(whole, "keys of a map");
        else passes(whole);
    }
    column_buffer const valid_entries[] = {keep({0b110_b})};
    column_parts const pair[] = {three, three};
    column_parts const entries{.format = "+s", .length = 3, .buffers = valid_entries, .children = pair};
    refused({.format = "+m", .length = 1, .buffers = map, .children = {&entries, 1}}, "entries of a map");
}

TEST_CASE("type ids of unions name existing children, and run ends increase") {
    pool keep;
    column_buffer const numbers[] = {none, keep({1, 2, 3})};
    column_parts const two[] = {{.format = "i", .length = 3, .buffers = numbers},
                                {.format = "i", .length = 1, .buffers = numbers}};
    auto const dense = [&](column_buffer types, column_buffer places, char const* why) {
        column_buffer const buffers[] = {types, places};
        column_parts const u{.format = "+ud:5,7", .length = 3, .buffers = buffers, .children = two};
        if (why == nullptr) passes(u);
        else refused(u, why);
    };
    dense(keep({5_b, 7_b, 5_b}), keep({0, 0, 2}), nullptr);
    dense(keep({5_b, 6_b, 5_b}), keep({0, 0, 2}), "item 1: its type id");
    dense(keep({5_b, 255_b, 5_b}), keep({0, 0, 2}), "item 1: its type id");
    dense(keep({5_b, 7_b, 5_b}), keep({0, 1, 2}), "item 1: it lies outside");
    dense(keep({5_b, 7_b, 5_b}), keep({0, -1, 2}), "item 1: it lies outside");
    dense(keep({5_b, 7_b, 5_b}), keep({1, 0, 0}), "before an earlier item");
    auto const runs = [&](column_buffer ends, char const* why) {
        column_buffer const buffers[] = {none, ends};
        column_parts const children[] = {{.format = "s", .name = "run_ends", .length = 3, .buffers = buffers}, two[0]};
        column_parts const r{.format = "+r", .length = 3, .offset = 2, .children = children};
        if (why == nullptr) passes(r);
        else refused(r, why);
    };
    using s = std::int16_t;
    runs(keep({s{1}, s{2}, s{5}}), nullptr);
    runs(keep({s{1}, s{2}, s{4}}), "end at 4, expected at least 5");
    runs(keep({s{1}, s{1}, s{5}}), "run 1 ends at 1");
    runs(keep({s{0}, s{1}, s{5}}), "run 0 ends at 0");
    column_buffer const ends[] = {none, keep({s{1}, s{2}, s{5}})};
    column_parts const encoded[] = {
        {.format = "s", .name = "run_ends", .length = 3, .buffers = ends, .dictionary = &two[0]}, two[0]};
    fails(errc::bad_column,
          [&] { static_cast<void>(ferry::make_column({.format = "+r", .length = 3, .children = encoded}, nullptr)); },
          {"column<run_ends>: run ends are dictionary-encoded"});
}

TEST_CASE("times are within a day, dates are whole days, and decimals within their precision") {
    pool keep;
    auto const check = [&](char const* format, std::int64_t length, column_buffer data, char const* why) {
        column_buffer const buffers[] = {none, data}, hidden[] = {keep({0_b}), data};
        column_parts parts{.format = format, .length = length, .buffers = buffers};
        if (why == nullptr) return passes(parts);
        refused(parts, why);
        parts.buffers = hidden;
        passes(parts);
    };
    check("tts", 2, keep({0, 86399}), nullptr);
    check("tts", 1, keep({86400}), "86400 is outside of a day");
    check("ttm", 1, keep({-1}), "-1 is outside of a day");
    check("ttn", 1, keep({std::int64_t{86'400'000'000'000}}), "day");
    check("tdm", 1, keep({std::int64_t{-86'400'000}}), nullptr);
    check("tdm", 1, keep({std::int64_t{1}}), "whole number of days");
    check("d:3,1,32", 2, keep({999, -999}), nullptr);
    check("d:3,1,32", 1, keep({-1000}), "item 0: it has more digits");
    check("d:18,1,64", 1, keep({std::int64_t{1'000'000'000'000'000'000}}), "digits");
    check("d:19,0", 1, keep({std::int64_t{INT64_MAX}, std::int64_t{0}}), nullptr);
    check("d:19,0", 1, keep({std::int64_t{0}, std::int64_t{1}}), "digits");
    check("d:38,0", 1, keep({std::int64_t{0}, INT64_MIN}), "digits");
    check("d:76,0,256", 1, keep({std::int64_t{-1}, std::int64_t{-1}, std::int64_t{-1}, std::int64_t{-1}}), nullptr);
    check("d:76,0,256", 1, keep({std::int64_t{0}, std::int64_t{0}, std::int64_t{0}, INT64_MIN}), "digits");
}
