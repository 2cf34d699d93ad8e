// Items of columns read as values of C++ types.
#include <ferry/column.hpp>
#include <ferry/column/concat.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <ranges>
#include <string_view>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::column_parts;
using ferry::column_view;
using ferry::errc;
using support::fails;
using namespace std::string_view_literals;

namespace {

unsigned char const odd_are_valid[] = {0b10101010, 0b10};

template <class T, std::size_t N>
column fixed(char const* format, T const (&values)[N], bool with_nulls = false, std::int64_t offset = 0) {
    column_buffer const buffers[] = {{with_nulls ? odd_are_valid : nullptr, with_nulls ? 2 : 0},
                                     {values, sizeof values}};
    return ferry::make_column(
        {.format = format, .length = static_cast<std::int64_t>(N) - offset, .offset = offset, .buffers = buffers},
        nullptr);
}

column texts(char const* format = "u") {
    static std::int32_t const ends[] = {0, 1, 3, 3, 6};
    static char const bytes[] = "abbccc";
    column_buffer const buffers[] = {{odd_are_valid, 2}, {ends, sizeof ends}, {bytes, 6}};
    return ferry::make_column({.format = format, .length = 4, .buffers = buffers}, nullptr);
}

template <class T>
std::vector<std::optional<T>> all(column const& c) {
    auto const values = c.values<T>();
    return {values.begin(), values.end()};
}

}  // namespace

static_assert(std::ranges::random_access_range<ferry::column_values<int>>);
static_assert(ferry::column_value<double> && ferry::column_value<bool> && ferry::column_value<column_view> &&
              !ferry::column_value<char const*>);

TEST_CASE("numbers are read as optional values, and as a span if there are no nulls") {
    double const prices[] = {1.5, 2.5, 3.5};
    auto const c = fixed("g", prices, true);
    CHECK(all<double>(c) == std::vector<std::optional<double>>{std::nullopt, 2.5, std::nullopt});
    fails(errc::argument, [&] { static_cast<void>(c.values<double>().span()); }, {"null"});
    auto const plain = fixed("g", prices, false, 1);
    CHECK(plain.values<double>().span().data() == prices + 1);
    CHECK(plain.values<double>().span().size() == 2);
    fails(errc::dtype, [&] { static_cast<void>(c.values<float>()); }, {"`g`", "double"});
    fails(errc::out_of_range, [&] { static_cast<void>(c.values<double>().at(3)); }, {"3"});
}

TEST_CASE("NaN is a value, and null is not") {
    double const prices[] = {__builtin_nan(""), __builtin_nan("")};
    auto const values = fixed("g", prices, true).values<double>();
    CHECK(!values[0]);
    REQUIRE(values[1]);
    CHECK(*values[1] != *values[1]);
}

TEST_CASE("dates and times are read as the integers in which they are stored") {
    std::int32_t const days[] = {0, 19000};
    CHECK(*fixed("tdD", days).values<std::int32_t>()[1] == 19000);
    std::int64_t const stamps[] = {0, -5};
    CHECK(*fixed("tsn:Europe/Berlin", stamps).values<std::int64_t>()[1] == -5);
    ferry::day_time const spans[] = {{1, 2}, {-3, 4}};
    CHECK(*fixed("tiD", spans).values<ferry::day_time>()[1] == ferry::day_time{-3, 4});
    ferry::month_day_nano const longer[] = {{1, 2, 3}};
    CHECK(*fixed("tin", longer).values<ferry::month_day_nano>()[0] == ferry::month_day_nano{1, 2, 3});
    std::array<std::int64_t, 2> const minus_seven[] = {{-7, -1}};
    auto const d = fixed("d:38,2", minus_seven).values<ferry::decimal<128>>()[0];
    CHECK(d->is_negative());
    CHECK(d->low() == -7);
}

TEST_CASE("booleans are read at any bit offset") {
    unsigned char const bits[] = {0b01010011, 0b1};
    column_buffer const buffers[] = {{odd_are_valid, 2}, {bits, 2}};
    auto const c = ferry::make_column({.format = "b", .length = 8, .offset = 1, .buffers = buffers}, nullptr);
    CHECK(all<bool>(c) == std::vector<std::optional<bool>>{true, {}, false, {}, false, {}, false, {}});
    CHECK(c.null_count() == 4);
}

TEST_CASE("strings and bytes are read in all layouts") {
    CHECK(all<std::string_view>(texts()) == std::vector<std::optional<std::string_view>>{{}, "bb"sv, {}, "ccc"sv});
    CHECK(all<std::string_view>(texts().slice(1, 2)) == std::vector<std::optional<std::string_view>>{"bb"sv, {}});
    CHECK(texts("z").values<std::span<std::byte const>>()[1]->size() == 2);
    fails(errc::dtype, [&] { static_cast<void>(texts("z").values<std::string_view>()); }, {"span"});
    char const three[] = "abcdef";
    column_buffer const fixed_size[] = {{}, {three, 6}};
    auto const w = ferry::make_column({.format = "w:3", .length = 2, .buffers = fixed_size}, nullptr)
                       .values<std::span<std::byte const>>();
    CHECK(w[1]->data() == static_cast<void const*>(three + 3));
    struct view {
        std::int32_t size;
        char text[4];
        std::int32_t buffer, offset;
    } views[] = {
        {3, {'x', 'y', 'z'}, 0, 0}, {13, {'a', 'b', 'c', 'd'}, 0, 1}, {13, {}, 0, 4}, {13, {}, 1, 0}, {-1, {}, 0, 0}};
    char const data[] = "_abcdefghijklm";
    std::int64_t const sizes[] = {14};
    column_buffer const viewed[] = {{}, {views, sizeof views}, {data, 14}, {sizes, 8}};
    auto const c = ferry::make_column({.format = "vu", .length = 5, .buffers = viewed}, nullptr);
    auto const v = c.values<std::string_view>();
    CHECK(v[0] == "xyz"sv);
    CHECK(v[1] == "abcdefghijklm"sv);
    fails(errc::bad_column, [&] { static_cast<void>(v[2]); }, {"item 2", "outside"});
    fails(errc::bad_column, [&] { static_cast<void>(v[3]); }, {"does not exist"});
    fails(errc::bad_column, [&] { static_cast<void>(v[4]); }, {"negative"});
    std::int64_t const too_much[] = {1000};  // of a buffer whose size is known
    view const beyond[] = {{1000, {'_', 'a', 'b', 'c'}, 0, 0}};
    column_buffer const lying[] = {{}, {beyond, sizeof beyond}, {data, 14}, {too_much, 8}};
    auto const l = ferry::make_column({.format = "vu", .length = 1, .buffers = lying}, nullptr);
    fails(errc::bad_column, [&] { static_cast<void>(l.values<std::string_view>()[0]); }, {"item 0", "outside"});
}

TEST_CASE("invalid offsets are not used") {
    std::int32_t const ends[] = {0, 7, 3, -5, 2000000000};
    column_buffer const buffers[] = {{}, {ends, sizeof ends}, {"abcdef", 6}};
    auto const v =
        ferry::make_column({.format = "u", .length = 4, .buffers = buffers}, nullptr).values<std::string_view>();
    for (std::int64_t i = 0; i < 4; ++i) fails(errc::bad_column, [&] { static_cast<void>(v[i]); }, {"item"});
    std::int32_t const numbers[] = {1, 2, 3};
    column_buffer const items[] = {{}, {numbers, 12}};
    column_parts const child{.format = "i", .length = 3, .buffers = items};
    column_buffer const list[] = {{}, {ends, sizeof ends}};
    auto const l = ferry::make_column({.format = "+l", .length = 4, .buffers = list, .children = {&child, 1}}, nullptr);
    for (std::int64_t i = 0; i < 4; ++i)
        fails(errc::bad_column, [&] { static_cast<void>(l.values<column_view>()[i]); }, {"child"});
}

TEST_CASE("the text of a slice is limited by the last offset of the column") {
    for (std::int32_t const last : {2, -1}) {
        std::int32_t const ends[] = {0, 1'000'000, last};
        column_buffer const buffers[] = {{}, {ends, sizeof ends}, {"ab", -1}};  // of unknown size
        auto const part = ferry::make_column({.format = "u", .length = 2, .buffers = buffers}, nullptr).slice(0, 1);
        fails(errc::bad_column, [&] { static_cast<void>(part.values<std::string_view>()[0]); }, {"item 0"});
        char const* const text = last < 0 ? "its last offset is -1, expected at least 0" : "1000000";
        fails(errc::bad_column, [&] { ferry::validate(part, ferry::validation::full); }, {text});
        fails(errc::bad_column, [&] { static_cast<void>(ferry::compact(part)); }, {text});
    }
}

TEST_CASE("items of lists, entries of maps and rows of structs are columns") {
    std::int32_t const numbers[] = {1, 2, 3, 4, 5, 6};
    column_buffer const items[] = {{}, {numbers, 24}};
    column_parts const child{.format = "i", .name = "item", .length = 5, .offset = 1, .buffers = items};
    std::int64_t const ends[] = {0, 2, 2, 5};
    column_buffer const list[] = {{}, {ends, sizeof ends}};
    auto const l = ferry::make_column(
        {.format = "+L", .length = 2, .offset = 1, .buffers = list, .children = {&child, 1}}, nullptr);
    auto const lists = l.values<column_view>();
    CHECK(lists[0]->length() == 0);
    CHECK(lists[1]->length() == 3);
    CHECK(*lists[1]->values<std::int32_t>()[0] == 4);
    column_buffer const none[] = {{}};
    auto const pairs = ferry::make_column(
        {.format = "+w:2", .length = 1, .offset = 1, .buffers = none, .children = {&child, 1}}, nullptr);
    CHECK(*pairs.values<column_view>()[0]->values<std::int32_t>()[0] == 4);
    auto const rows = ferry::make_column(
        {.format = "+s", .length = 2, .offset = 2, .buffers = none, .children = {&child, 1}}, nullptr);
    CHECK(*rows.values<column_view>()[1]->field("item").values<std::int32_t>()[0] == 5);
    std::int32_t const begins[] = {3, 0}, sizes[] = {2, 5};
    column_buffer const viewed[] = {{}, {begins, 8}, {sizes, 8}};
    auto const v =
        ferry::make_column({.format = "+vl", .length = 2, .buffers = viewed, .children = {&child, 1}}, nullptr)
            .values<column_view>();
    CHECK(v[0]->length() == 2);
    CHECK(*v[0]->values<std::int32_t>()[1] == 6);
}

TEST_CASE("indices are read as values of the dictionary, null or not, and indices beyond it are refused") {
    auto const words = texts();
    column_buffer const word_buffers[] = {words.view().buffers()[0], words.view().buffers()[1],
                                          words.view().buffers()[2]};
    column_parts const dictionary{.format = "u", .length = 4, .buffers = word_buffers};
    signed char const indices[] = {3, 1, 0, 4, -1};
    column_buffer const buffers[] = {{}, {indices, 5}};
    auto const c =
        ferry::make_column({.format = "c", .length = 5, .buffers = buffers, .dictionary = &dictionary}, nullptr);
    auto const v = c.values<std::string_view>();
    CHECK(v[0] == "ccc"sv);
    CHECK(v[1] == "bb"sv);
    CHECK(v[2] == std::nullopt);
    fails(errc::bad_column, [&] { static_cast<void>(v[3]); }, {"dictionary"});
    fails(errc::bad_column, [&] { static_cast<void>(v[4]); }, {"dictionary"});
}

TEST_CASE("a dictionary of dictionaries is not read as indices of one") {
    signed char const indices[] = {1, 0};
    std::int32_t const numbers[] = {7, 8};
    column_buffer const ends[] = {{}, {numbers, 8}}, inner[] = {{}, {indices, 2}};
    column_parts const values{.format = "i", .length = 2, .buffers = ends};
    column_parts const words{.format = "c", .length = 2, .buffers = inner, .dictionary = &values};
    auto const c = ferry::make_column({.format = "c", .length = 2, .buffers = inner, .dictionary = &words}, nullptr);
    fails(errc::dtype, [&] { static_cast<void>(c.values<std::int8_t>()); }, {"dictionary()"});
    CHECK(*c.dictionary().values<std::int32_t>()[0] == 8);
}

TEST_CASE("a column of type null is read as nulls of any type") {
    auto const c = ferry::make_column({.format = "n", .length = 3}, nullptr);
    CHECK(all<double>(c) == std::vector<std::optional<double>>(3));
    CHECK(c.null_count() == 3);
}

TEST_CASE("values keep the memory of an owned column") {
    auto memory = std::make_shared<std::vector<std::int32_t>>(3, 7);
    std::weak_ptr<void> const alive = memory;
    column_buffer const buffers[] = {{}, {memory->data(), 12}};
    auto values =
        ferry::make_column({.format = "i", .length = 3, .buffers = buffers}, std::move(memory)).values<std::int32_t>();
    CHECK(*values[2] == 7);
    CHECK(!alive.expired());
}

TEST_CASE("items in device memory are not read") {
    std::int32_t const numbers[] = {1};
    column_buffer const buffers[] = {{odd_are_valid, 1}, {numbers, 4}};
    auto const c =
        ferry::make_column({.format = "i", .length = 1, .buffers = buffers}, nullptr, {ferry::device_type::cuda, 1});
    fails(errc::not_accessible, [&] { static_cast<void>(c.values<std::int32_t>()); }, {"cuda:1"});
    fails(errc::not_accessible, [&] { static_cast<void>(c.null_count()); }, {"cuda:1"});
}

TEST_CASE("a column without items accesses no memory, at any offset") {
    std::int32_t const value = 1;
    column_buffer const buffers[] = {{}, {&value, -1}};
    auto const c = ferry::make_column(
        {.format = "i", .length = 0, .offset = (std::int64_t{1} << 60) - 1, .buffers = buffers}, nullptr);
    CHECK(c.values<std::int32_t>().span().empty());
    CHECK(c.values<std::int32_t>().begin() == c.values<std::int32_t>().end());
}
