// Loops over typed views.
#include <ferry/tensor/as.hpp>
#include <ferry/tensor/for_each.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

using ferry::access_from;
using ferry::as;
using ferry::layout;
using ferry::range_slice;
using ferry::tensor_view;

namespace {
constexpr auto all = ferry::full_extent;

struct cube {
    std::vector<std::int32_t> data = std::vector<std::int32_t>(24);
    std::int64_t shape[3] = {2, 3, 4};
    cube() { std::iota(data.begin(), data.end(), 0); }
    [[nodiscard]] ferry::typed_view<std::int32_t, 3> view() {
        return as<std::int32_t, 3>(tensor_view{data.data(), shape});
    }
};

template <class View>
std::vector<std::int32_t> listed(View const& v) {
    std::vector<std::int32_t> out;
    ferry::for_each(v, [&](std::int32_t x) { out.push_back(x); });
    return out;
}
std::vector<std::int32_t> of_any_rank(ferry::typed_view<std::int32_t const> v) { return listed(v); }

using line = ferry::typed_view<float, 1, access_from::host, layout::contiguous>;
using strided = ferry::typed_view<float, 1>;
using nibbles = ferry::typed_view<ferry::uint4_t const, 1>;
static_assert(std::same_as<decltype(line{}.begin()), float*>);
static_assert(std::random_access_iterator<decltype(strided{}.begin())>);
static_assert(std::random_access_iterator<decltype(nibbles{}.begin())>);
static_assert(!std::contiguous_iterator<decltype(strided{}.begin())>);
template <class View>
concept iterable = requires(View const v) { v.begin(); };
static_assert(!iterable<ferry::typed_view<float, 2>> && !iterable<ferry::typed_view<float, 1, access_from::device>>);
static_assert(!iterable<ferry::typed_view<float>>);

}  // namespace

TEST_CASE("a view of rank 1 is a range of its elements, with any stride") {
    cube c;
    auto const row = c.view().slice(1, 1, range_slice{.stride = -1});
    std::vector<std::int32_t> const want{19, 18, 17, 16};
    CHECK(std::vector<std::int32_t>(row.begin(), row.end()) == want);
    for (auto& x : row) x += 100;
    CHECK(c.data[16] == 116);
    std::sort(row.begin(), row.end());
    CHECK(row[0] == 116);
    CHECK(row.end() - row.begin() == 4);
    CHECK(row.begin()[3] == 119);
    CHECK(*(row.end() - 1) == 119);
    std::int64_t const five[] = {5}, repeated[] = {0};
    auto const same = as<std::int32_t const, 1>(tensor_view{c.data.data(), five, repeated});
    CHECK(std::distance(same.begin(), same.end()) == 5);  // R29: stride 0
    auto const whole = as<std::int32_t, 1, access_from::host, layout::contiguous>(tensor_view{c.data.data(), five});
    CHECK(std::accumulate(whole.begin(), whole.end(), 0) == 10);
    for (float x : strided{}) CHECK(x == 0);
}

TEST_CASE("R19: iterators of packed elements return values") {
    unsigned char bytes[] = {0x21, 0x43};
    std::int64_t const four[] = {4};
    auto const v = as<ferry::uint4_t const, 1>(tensor_view{bytes, ferry::dtype_of<ferry::uint4_t>, four});
    int want = 1;
    for (auto const x : v) CHECK(x.bits == want++);
    CHECK(want == 5);
    want = 1;
    ferry::for_each(v, [&](ferry::uint4_t x) { CHECK(x.bits == want++); });
    CHECK(want == 5);
}

TEST_CASE("for_each visits every element once, in row-major order, for all layouts") {
    cube c;
    CHECK(listed(c.view()) == c.data);
    for (auto const rows : {range_slice{}, range_slice{1, 3}, range_slice{.stride = -1}, range_slice{0, 0}})
        for (auto const columns : {range_slice{}, range_slice{.last = 3}, range_slice{.stride = 2},
                                   range_slice{.stride = -1}, range_slice{2, 3}}) {
            auto const v = c.view().slice(all, rows, columns);
            std::vector<std::int32_t> want;
            for (std::int64_t i = 0; i < v.extent(0); ++i)
                for (std::int64_t j = 0; j < v.extent(1); ++j)
                    for (std::int64_t k = 0; k < v.extent(2); ++k) want.push_back(v(i, j, k));
            CHECK(listed(v) == want);
            CHECK(of_any_rank(v) == want);
        }
    std::int64_t const transposed[] = {1, 2, 6}, repeated[] = {0, 0, 0};
    auto const columns = as<std::int32_t, 3>(tensor_view{c.data.data(), c.shape, transposed});
    CHECK(listed(columns)[1] == 6);
    CHECK(listed(columns)[4] == 2);
    CHECK(listed(as<std::int32_t const, 3>(tensor_view{c.data.data(), c.shape, repeated})) ==
          std::vector<std::int32_t>(24, 0));
}

TEST_CASE("for_each writes, accepts rank 0 and empty views, and views of dynamic rank") {
    cube c;
    ferry::for_each(as<std::int32_t, 3, access_from::host, layout::contiguous>(tensor_view{c.data.data(), c.shape}),
                    [](std::int32_t& x) { x *= 2; });
    CHECK(c.data[23] == 46);
    CHECK(listed(c.view().slice(1, 2, 3)) == std::vector<std::int32_t>{46});
    CHECK(listed(ferry::typed_view<std::int32_t, 2>{}).empty());
    CHECK(of_any_rank({}).empty());
    tensor_view const v{c.data.data(), c.shape};
    CHECK(listed(as<std::int32_t>(v)) == c.data);
    std::int32_t one = 7;
    CHECK(listed(as<std::int32_t>(tensor_view{&one, {}})) == std::vector<std::int32_t>{7});
}
