// Format strings.
#include <ferry/column/layout.hpp>
#include <ferry/column/type.hpp>

#include <doctest/doctest.h>

using ferry::column_type;
using ferry::parse_format;
using ferry::time_unit;
using ferry::type_id;

TEST_CASE("every format of Arrow's C data interface is parsed to its type") {
    using enum type_id;
    struct {
        char const* format;
        column_type type;
    } const all[] = {{"n", {null}},
                     {"b", {boolean}},
                     {"c", {int8}},
                     {"C", {uint8}},
                     {"s", {int16}},
                     {"S", {uint16}},
                     {"i", {int32}},
                     {"I", {uint32}},
                     {"l", {int64}},
                     {"L", {uint64}},
                     {"e", {float16}},
                     {"f", {float32}},
                     {"g", {float64}},
                     {"z", {binary}},
                     {"Z", {large_binary}},
                     {"vz", {binary_view}},
                     {"u", {string}},
                     {"U", {large_string}},
                     {"vu", {type_id::string_view}},
                     {"w:42", {fixed_size_binary, {}, 42}},
                     {"d:19,10", {decimal, {}, 128, 19, 10}},
                     {"d:7,-2", {decimal, {}, 128, 7, -2}},
                     {"d:76,0,256", {decimal, {}, 256, 76, 0}},
                     {"d:9,3,32", {decimal, {}, 32, 9, 3}},
                     {"d:18,3,64", {decimal, {}, 64, 18, 3}},
                     {"tdD", {date32}},
                     {"tdm", {date64}},
                     {"tts", {time32, time_unit::second}},
                     {"ttm", {time32, time_unit::millisecond}},
                     {"ttu", {time64, time_unit::microsecond}},
                     {"ttn", {time64, time_unit::nanosecond}},
                     {"tss:", {timestamp, time_unit::second}},
                     {"tsn:Europe/Berlin", {timestamp, time_unit::nanosecond, 0, 0, 0, "Europe/Berlin"}},
                     {"tDs", {duration, time_unit::second}},
                     {"tDm", {duration, time_unit::millisecond}},
                     {"tDu", {duration, time_unit::microsecond}},
                     {"tDn", {duration, time_unit::nanosecond}},
                     {"tiM", {interval_months}},
                     {"tiD", {interval_day_time}},
                     {"tin", {interval_month_day_nano}},
                     {"+l", {list}},
                     {"+L", {large_list}},
                     {"+vl", {list_view}},
                     {"+vL", {large_list_view}},
                     {"+w:3", {fixed_size_list, {}, 3}},
                     {"+s", {structure}},
                     {"+m", {map}},
                     {"+ud:0,5", {dense_union, {}, 0, 0, 0, "0,5"}},
                     {"+us:", {sparse_union}},
                     {"+r", {run_end_encoded}}};
    for (auto const& [format, type] : all) {
        INFO(format);
        REQUIRE(parse_format(format).has_value());
        CHECK(*parse_format(format) == type);
    }
}

TEST_CASE("other formats are refused") {
    for (char const* const format :
         {"",        "x",      "nn",     "i ",     " i",    "w",      "w:",        "w:-1",     "w:+1",   "w:4294967296",
          "w:1x",    "d",      "d:",     "d:1",    "d:0,0", "d:39,0", "d:10,0,32", "d:5,2,16", "d:5,2,", "d:5,2,128,",
          "d:5,--2", "t",      "td",     "tdx",    "tt",    "ttx",    "ttsn",      "ts",       "tsn",    "tsx:",
          "tD",      "tDx",    "ti",     "tix",    "v",     "vx",     "vzz",       "+",        "+x",     "+ll",
          "+v",      "+vx",    "+w",     "+w:",    "+w:x",  "+u",     "+ux:",      "+ud",      "+ud:x",  "+ud:128",
          "+ud:1,1", "+ud:1,", "+ud:,1", "+ud:-1", "+ss"}) {
        INFO(format);
        CHECK_FALSE(parse_format(format).has_value());
    }
}

TEST_CASE("buffer sizes are those of the items, or of one more offset, and overflow is reported") {
    using enum ferry::buffer_kind;
    std::int64_t n = 0;
    CHECK((needed_bytes(*parse_format("i"), {data, 0}, 3, n) && n == 12));
    CHECK((needed_bytes(*parse_format("b"), {data, 0}, 9, n) && n == 2));
    CHECK((needed_bytes(*parse_format("u"), {offsets, 32}, 3, n) && n == 16));
    CHECK((needed_bytes(*parse_format("U"), {offsets, 64}, 3, n) && n == 32));
    CHECK((needed_bytes(*parse_format("i"), {validity, 1}, INT64_MAX, n) && n == (INT64_MAX / 8) + 1));
    CHECK_FALSE(needed_bytes(*parse_format("U"), {offsets, 64}, INT64_MAX, n));
    CHECK_FALSE(needed_bytes(*parse_format("w:2147483647"), {data, 0}, INT64_MAX / 2, n));
    CHECK((needed_bytes(*parse_format("w:2147483647"), {data, 0}, 2, n) && n == 4294967294));
}
