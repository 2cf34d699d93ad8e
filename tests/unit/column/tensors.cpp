// Fixed-size lists, and the extension type arrow.fixed_shape_tensor, as tensors of more dimensions, both ways.
#include <ferry/column.hpp>
#include <ferry/column/detail/fixed_shape.hpp>
#include <ferry/column/metadata.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>
#include <support/sim_column.hpp>
#include <support/sim_space.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

using ferry::column;
using ferry::column_buffer;
using ferry::column_parts;
using ferry::errc;
using ferry::tensor_items;
using support::fails;

namespace {

using extents = std::vector<std::int64_t>;

std::int64_t product(extents const& of) {
    return std::accumulate(of.begin(), of.end(), std::int64_t{1}, std::multiplies<>{});
}

/// 0, 1, 2, … in memory of any strides that are a permutation of a compact shape.
ferry::managed_tensor counted(extents const& shape, extents const& strides = {}) {
    std::vector<float> data(static_cast<std::size_t>(product(shape)));
    std::iota(data.begin(), data.end(), 0.0F);
    auto* const p = data.data();
    return ferry::make_managed(std::move(data),
                               ferry::tensor_view{static_cast<void*>(p), ferry::dtype_of<float>, shape, strides});
}

/// A column of fixed-size lists, one level for each width, of the numbers 0, 1, 2, ….
struct lists {
    std::vector<float> numbers;
    std::vector<unsigned char> some_null{0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};  // the second
    column made;

    /// \param nulls_at  level with a null: 0 is the outermost list, -1 none
    lists(std::int64_t rows, std::vector<int> const& widths, int nulls_at = -1, std::string const& metadata = {},
          std::int64_t offset = 0) {
        std::vector<std::string> formats;
        std::vector<std::int64_t> lengths{rows};
        for (auto const w : widths) {
            formats.push_back("+w:" + std::to_string(w));
            lengths.push_back(lengths.back() * w);
        }
        formats.push_back("f");
        numbers.resize(static_cast<std::size_t>(lengths.back()));
        std::iota(numbers.begin(), numbers.end(), 0.0F);
        std::vector<std::vector<column_buffer>> buffers(formats.size());
        std::vector<column_parts> parts(formats.size());
        for (std::size_t i = formats.size(); i-- > 0;) {
            bool const is_leaf = i + 1 == formats.size();
            buffers[i].push_back(static_cast<int>(i) == nulls_at ? column_buffer{some_null.data(), 8}
                                                                 : column_buffer{});
            if (is_leaf) buffers[i].push_back({numbers.data(), static_cast<std::int64_t>(4 * numbers.size())});
            parts[i] = {
                .format = formats[i], .name = i == 0 ? "t" : "item", .length = lengths[i], .buffers = buffers[i]};
            if (!is_leaf) parts[i].children = {&parts[i + 1], 1};
        }
        parts[0].offset = offset, parts[0].length -= offset;
        parts[0].metadata = metadata;
        made = ferry::make_column(parts[0], nullptr);
    }
};

std::string extension(std::string const& json, std::string const& name = "arrow.fixed_shape_tensor") {
    return std::string{
        ferry::metadata_builder{}.add("ARROW:extension:name", name).add("ARROW:extension:metadata", json).bytes()};
}

extents shape_of(ferry::managed_tensor const& t) {
    extents out;
    for (int i = 0; i < t.rank(); ++i) out.push_back(t.view().extent(i));
    return out;
}
extents strides_of(ferry::managed_tensor const& t) {
    extents out;
    for (int i = 0; i < t.rank(); ++i) out.push_back(t.view().stride(i));
    return out;
}

}  // namespace

TEST_CASE("fixed-size lists without nulls are a tensor with a dimension for each level, shared and read-only") {
    lists const one{3, {4}};
    auto const t = ferry::to_tensor(one.made);
    CHECK(shape_of(t) == extents{3, 4});
    CHECK(t.view().data() == one.numbers.data());
    CHECK(t.is_read_only());
    CHECK_FALSE(t.is_copied());
    CHECK(t.as<float const, 2>()(2, 1) == 9);
    lists const deep{2, {3, 4, 5}};
    auto const four = ferry::to_dlpack(deep.made);
    CHECK_FALSE(four.validity);
    CHECK(shape_of(four.data) == extents{2, 3, 4, 5});
    CHECK(four.data.as<float const, 4>()(1, 2, 3, 4) == 119);
}

TEST_CASE("a slice begins at its first list, of a column with an offset, and of lists of lists") {
    lists const c{6, {2, 3}, -1, {}, 1};
    auto const t = ferry::to_tensor(c.made.slice(2, 2));
    CHECK(shape_of(t) == extents{2, 2, 3});
    CHECK(t.view().data() == c.numbers.data() + 3 * 6);
    CHECK(shape_of(ferry::to_tensor(c.made.slice(2, 0))) == extents{0, 2, 3});
    CHECK(shape_of(ferry::to_tensor(lists{3, {0}}.made)) == extents{3, 0});
    CHECK(shape_of(ferry::to_tensor(lists{3, {0, 7}}.made)) == extents{3, 0, 7});
}

TEST_CASE("nulls at any level are refused with the path; those outside of a slice are not") {
    for (int level = 0; level < 3; ++level) {
        lists const c{4, {2, 3}, level};
        char const* const path = level == 0 ? "t: it has 1 nulls" : level == 1 ? "t[]: it has 1" : "t[][]: it has 1";
        fails(errc::dtype, [&] { static_cast<void>(ferry::to_tensor(c.made)); }, {path, "replace"});
        fails(errc::dtype, [&] { static_cast<void>(ferry::to_dlpack(c.made)); }, {path});
        CHECK(shape_of(ferry::to_tensor(c.made.slice(2, 2))) == extents{2, 2, 3});
    }
}

TEST_CASE("lists of booleans are unpacked, and lists of what is no number are refused") {
    unsigned char const bits[] = {0b10110100};
    column_buffer const items[] = {{}, {bits, 1}}, none[1]{};
    column_parts const child{.format = "b", .name = "item", .length = 8, .buffers = items};
    auto const c = ferry::make_column(
        {.format = "+w:2", .length = 3, .offset = 1, .buffers = none, .children = {&child, 1}}, nullptr);
    auto const t = ferry::to_tensor(c);
    CHECK(t.is_copied());
    CHECK(shape_of(t) == extents{3, 2});
    for (int i = 0; i < 6; ++i) CHECK(t.as<bool const, 2>()(i / 2, i % 2) == ((bits[0] >> (i + 2) & 1) != 0));
    auto const back = ferry::from_tensors(ferry::to_tensor(c));
    CHECK(back.child(0).format() == "b");
    CHECK(back.child(0).length() == 6);
    auto const again = ferry::to_tensor(back);
    for (int i = 0; i < 6; ++i) CHECK(again.as<bool const, 2>()(i / 2, i % 2) == ((bits[0] >> (i + 2) & 1) != 0));
    std::int32_t const offsets[] = {0, 0, 0};
    column_buffer const text[] = {{}, {offsets, 12}, {}};
    column_parts const word{.format = "u", .name = "item", .length = 2, .buffers = text};
    auto const words =
        ferry::make_column({.format = "+w:1", .length = 2, .buffers = none, .children = {&word, 1}}, nullptr);
    fails(errc::dtype, [&] { static_cast<void>(ferry::to_tensor(words)); }, {"format `u`", "differ in length"});
    column_parts const nulls{.format = "n", .name = "item", .length = 6};  // has no bitmap
    column_parts const pairs{.format = "+w:2", .length = 3, .buffers = none, .children = {&nulls, 1}};
    for (auto const& parts : {column_parts{.format = "+w:3", .length = 2, .buffers = none, .children = {&nulls, 1}},
                              column_parts{.format = "+w:3", .length = 1, .buffers = none, .children = {&pairs, 1}}}) {
        auto const list = ferry::make_column(parts, nullptr);
        fails(errc::dtype, [&] { static_cast<void>(ferry::to_tensor(list)); }, {"format `n`"});
        CHECK(ferry::try_to_dlpack(list).error().code() == errc::dtype);
    }
}

TEST_CASE("arrow.fixed_shape_tensor has its shape, and its permutation as strides") {
    auto const shaped = [](char const* json) { return ferry::to_tensor(lists{2, {24}, -1, extension(json)}.made); };
    auto const plain = shaped(R"({"shape":[2,3,4]})");
    CHECK(shape_of(plain) == extents{2, 2, 3, 4});
    CHECK(strides_of(plain) == extents{24, 12, 4, 1});
    auto const turned =
        shaped(R"( { "permutation" : [2, 0, 1] ,"shape":[ 2,3, 4 ],"dim_names":["a]},\"","b","shape"]} )");
    CHECK(shape_of(turned) == extents{2, 4, 2, 3});
    CHECK(strides_of(turned) == extents{24, 1, 12, 4});
    CHECK(strides_of(shaped(R"({"shape":[2,12],"permutation":null,"x":{"shape":[1],"y":[2,{}]}})")) ==
          extents{24, 12, 1});
    // Of lists: each list is a dimension in front, or behind.
    CHECK(shape_of(ferry::to_tensor(lists{2, {4, 3}, -1, extension(R"({"shape":[2,2],"permutation":[1,0]})")}.made)) ==
          extents{2, 2, 2, 3});
    CHECK(shape_of(ferry::to_tensor(lists{2, {4}, -1, extension("{\"shape\":[9]}", "ferry.point")}.made)) ==
          extents{2, 4});
}

TEST_CASE("metadata that does not describe the lists is refused") {
    for (auto const* const json : {"",
                                   "{",
                                   "{}",
                                   "[]",
                                   R"({"shape":[2,2]})",
                                   R"({"shape":[24]}x)",
                                   R"({"shape":[24])",
                                   R"({"shape":[24,]})",
                                   R"({"shape":[-24]})",
                                   R"({"shape":[24.0]})",
                                   R"({"shape":"24"})",
                                   R"({"shape":[99999999999]})",
                                   R"({"shape":[65536,65536,24]})",
                                   R"({"shape":[2,12],"permutation":[0]})",
                                   R"({"shape":[2,12],"permutation":"[1,0]"})",
                                   R"({"shape":[2,12],"permutation":true})",
                                   R"({"shape":24})",
                                   R"({"shape":[2,12],"permutation":[0,0]})",
                                   R"({"shape":[2,12],"permutation":[0,2]})",
                                   R"({"shape)",
                                   R"({"shape":[24],"x":[})",
                                   R"({"shape":[24],"x":"\)",
                                   R"({"shape":[24] "x":1})"}) {
        INFO(json);
        lists const c{2, {24}, -1, extension(json)};
        fails(errc::bad_column, [&] { static_cast<void>(ferry::to_tensor(c.made)); },
              {"t: the metadata of arrow.fixed_shape_tensor", "24"});
    }
}

TEST_CASE("changed metadata is read within its text, or refused") {
    std::string const valid = R"( {"shape":[2,3,4],"permutation":[2,0,1],"names":["a\"]",{"b":[]}]} )";
    std::string const letters = R"({}[]",:\ 0129-.shape)";
    std::mt19937 random{5};
    auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    int read = 0, refused = 0;
    for (int turn = 0; turn < 20'000; ++turn) {
        auto text = valid;
        for (auto edits = 1 + below(3); edits-- > 0 && !text.empty();)
            if (auto const at = below(text.size()); below(4) == 0) text.resize(at);
            else if (below(2) == 0) text.erase(at, 1 + below(3));
            else text[at] = letters[below(letters.size())];
        std::vector<char> const exact(text.begin(), text.end());  // ends where the memory ends
        extents shape, permutation;
        bool const is_valid = ferry::detail::fixed_shape_reader{{exact.data(), exact.size()}}.read(shape, permutation);
        ++(is_valid ? read : refused);
        if (is_valid) CHECK(std::all_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent >= 0; }));
    }
    CHECK(read > 1'000);
    CHECK(refused > 1'000);
}

TEST_CASE("a tensor becomes nested fixed-size lists that share it, and a validity is that of the rows") {
    auto t = counted({2, 3, 4});
    auto const* const first = t.view().data();
    auto const c = ferry::from_tensors(std::move(t));
    CHECK(c.format() == "+w:3");
    CHECK(c.child(0).format() == "+w:4");
    CHECK(c.child(0).length() == 6);
    auto const numbers = c.child(0).child(0);
    CHECK(numbers.format() == "f");
    CHECK(numbers.name() == "item");
    CHECK(numbers.length() == 24);
    CHECK(numbers.view().buffers()[1].data == first);
    CHECK(numbers.view().buffers()[1].bytes == 96);
    auto const back = ferry::to_tensor(c);
    CHECK(back.view().data() == first);
    CHECK(shape_of(back) == extents{2, 3, 4});
    static unsigned char const ones[] = {1, 0};
    static std::int64_t const two[] = {2};
    auto valid = ferry::make_managed(std::make_shared<int>(), ferry::tensor_view{ones, two});
    auto const with = ferry::from_tensors(counted({2, 3}), std::move(valid));
    CHECK(with.null_count() == 1);
    CHECK(with.child(0).null_count() == 0);
    CHECK(ferry::from_tensors(counted({0, 3})).length() == 0);
    CHECK(ferry::from_tensors(counted({3, 0, 2})).child(0).length() == 0);
}

TEST_CASE("a tensor becomes arrow.fixed_shape_tensor if asked; permuted memory is shared, other memory is compacted") {
    auto const as_tensor = [](ferry::managed_tensor t) {
        return ferry::from_tensors(std::move(t), {}, ferry::host_only, {}, tensor_items::fixed_shape_tensor);
    };
    auto const described = [](column const& c) {
        ferry::metadata_view const all{c.view().metadata()};
        CHECK(all.find("ARROW:extension:name") == "arrow.fixed_shape_tensor");
        return std::string{all.find("ARROW:extension:metadata")};
    };
    auto const plain = as_tensor(counted({2, 3, 4}));
    CHECK(plain.format() == "+w:12");
    CHECK(plain.child(0).format() == "f");
    CHECK(described(plain) == R"({"shape":[3,4]})");
    auto turned = counted({2, 4, 2, 3}, {24, 1, 12, 4});
    auto const* const first = turned.view().data();
    auto const shared = as_tensor(std::move(turned));
    CHECK(described(shared) == R"({"shape":[2,3,4],"permutation":[2,0,1]})");
    auto const items = shared.child(0);
    CHECK(items.view().buffers()[1].data == first);
    auto const back = ferry::to_tensor(shared);
    CHECK(shape_of(back) == extents{2, 4, 2, 3});
    CHECK(strides_of(back) == extents{24, 1, 12, 4});
    // Rows that are not in order: the elements are copied, and have no permutation.
    auto const copied = as_tensor(counted({2, 3}, {1, 2}));
    CHECK(described(copied) == R"({"shape":[3]})");
    auto const compact = ferry::to_tensor(copied);
    auto const values = compact.as<float const, 2>();
    CHECK(values(1, 0) == 1);
    CHECK(values(0, 1) == 2);
    fails(errc::rank, [&] { static_cast<void>(as_tensor(counted({2}))); }, {"at least 2 dimensions, got 1"});
}

TEST_CASE("tensors whose rows do not fit in a list are refused") {
    fails(errc::rank, [] { static_cast<void>(ferry::from_tensors(counted({}))); }, {"at least 1 dimension, got 0"});
    static float one = 1;
    auto const huge = [](extents const& shape, tensor_items as) {
        static_cast<void>(ferry::from_tensors(
            ferry::make_managed(std::make_shared<int>(),
                                ferry::tensor_view{static_cast<void*>(&one), ferry::dtype_of<float>, shape}),
            {}, ferry::host_only, {}, as));
    };
    std::int64_t const large = std::int64_t{1} << 31;
    fails(errc::overflow, [&] { huge({1, large}, tensor_items::lists); }, {"more than 2147483647"});
    fails(errc::overflow, [&] { huge({1, 65536, 32768}, tensor_items::fixed_shape_tensor); }, {"more than 2147483647"});
    fails(errc::overflow, [&] { huge({std::int64_t{1} << 62, 8, 0}, tensor_items::lists); }, {"items"});
    huge({1, 65536, 32768}, tensor_items::lists);
    auto const empty =
        ferry::from_tensors(counted({5, 0, large}), {}, ferry::host_only, {}, tensor_items::fixed_shape_tensor);
    CHECK(shape_of(ferry::to_tensor(empty)) == extents{5, 0, large});
    fails(errc::bad_column, [&] { static_cast<void>(ferry::from_tensors(counted(extents(80, 1)))); }, {"deeper"});
}

TEST_CASE("random tensors return as they were, from lists and from tensors in any order of dimensions") {
    std::mt19937 random{7};
    auto const below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
    for (int n = 0; n < 300; ++n) {
        extents shape, strides(static_cast<std::size_t>(2 + below(4)));
        std::vector<std::size_t> order(strides.size());
        for (std::size_t i = 0; i < strides.size(); ++i) shape.push_back(n % 10 == 0 ? below(4) : 1 + below(4));
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin() + (n % 3 == 0 ? 0 : 1), order.end(), random);
        std::int64_t step = 1;
        for (std::size_t i = order.size(); i-- > 0; step *= std::max<std::int64_t>(shape[order[i]], 1))
            strides[order[i]] = step;
        auto const as = n % 2 == 0 ? tensor_items::lists : tensor_items::fixed_shape_tensor;
        auto const whole = ferry::from_tensors(counted(shape, strides), {}, ferry::host_only, {}, as);
        auto const begin = below(static_cast<int>(shape[0]) + 1);
        auto const back = ferry::to_tensor(whole.slice(begin, shape[0] - begin));
        auto left = shape;
        left[0] -= begin;
        REQUIRE(shape_of(back) == left);
        std::vector<std::int64_t> at(shape.size());
        for (std::int64_t k = 0; k < product(left); ++k) {
            std::int64_t rest = k, from = begin * strides[0], to = 0;
            for (std::size_t i = shape.size(); i-- > 0; rest /= left[i]) {
                from += rest % left[i] * strides[i];
                to += rest % left[i] * back.view().stride(static_cast<int>(i));
            }
            REQUIRE(static_cast<float const*>(back.view().data())[to] == static_cast<float>(from));
        }
    }
}

TEST_CASE("columns of lists in the memory of a device stay there, and the bits of a validity are counted on the host") {
    ferry::device const gpu{ferry::device_type::cuda, 0};
    support::sim_system sim{gpu};
    auto const stream = sim.make_stream(ferry::device_type::cuda);
    support::sim_columns others{sim, gpu, stream};
    lists const c{4, {2, 3}, 1};
    auto const there = others.put(c.made);
    fails(errc::dtype, [&] { static_cast<void>(ferry::to_tensor(there, sim, stream)); }, {"t[]: it has 1 nulls"});
    auto t = ferry::to_tensor(there.slice(1, 2), sim, stream);
    CHECK(t.device() == gpu);
    CHECK(shape_of(t) == extents{2, 2, 3});
    auto const back = ferry::from_tensors(std::move(t), {}, sim, stream).to(ferry::cpu, sim, stream);
    auto const again = ferry::to_tensor(back);
    CHECK(again.as<float const, 3>()(1, 1, 2) == 17);
    CHECK(sim.races() == 0);
}

TEST_CASE("a failed allocation of a nested export or import leaves nothing behind") {
    auto const owner = std::make_shared<int>();
    CHECK(support::for_each_failing_allocation([&](int) {
              static float const numbers[] = {0, 1, 2, 3, 4, 5};
              static std::int64_t const shape[] = {1, 2, 3};
              auto t = ferry::make_managed(std::shared_ptr<int>{owner}, ferry::tensor_view{numbers, shape});
              auto const c =
                  ferry::from_tensors(std::move(t), {}, ferry::host_only, {}, tensor_items::fixed_shape_tensor);
              static_cast<void>(ferry::to_tensor(c));
          }) > 6);
    CHECK(owner.use_count() == 1);
}
