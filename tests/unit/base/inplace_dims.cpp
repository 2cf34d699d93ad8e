#include <ferry/base/inplace_dims.hpp>

#include <doctest/doctest.h>
#include <support/fails.hpp>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

using ferry::inplace_dims;
using ferry::errc;
using support::both_fail;
using support::fails;

namespace {

/// As std::extents, of C++23.
struct mdspan_extents {
    using rank_type = std::size_t;
    std::size_t rows, columns;
    static constexpr std::size_t rank() { return 2; }
    [[nodiscard]] constexpr std::size_t extent(std::size_t i) const { return i == 0 ? rows : columns; }
};

}  // namespace

TEST_CASE("a list of extents is made from integers and lists of any type") {
    inplace_dims<2> const expected{std::int64_t{2}, std::int64_t{3}};
    std::size_t const rows = 2;
    int const plain[] = {2, 3};
    std::vector<int> const ints{2, 3};
    std::array<std::size_t, 2> const sizes{2, 3};
    std::vector<long long> const longs{2, 3};
    CHECK(inplace_dims<2>{rows, 3} == expected);
    CHECK(inplace_dims<2>{plain} == expected);
    CHECK(inplace_dims<2>{ints} == expected);
    CHECK(inplace_dims<2>{std::span{ints}} == expected);
    CHECK(inplace_dims<2>{sizes} == expected);
    std::initializer_list<std::int64_t> const braced = {2, 3};
    CHECK(inplace_dims<2>{braced} == expected);
    CHECK(inplace_dims<2>{longs} == expected);
    CHECK(inplace_dims<2>{ferry::shape_view{expected}} == expected);
    CHECK(inplace_dims<2>{mdspan_extents{2, 3}} == expected);
    CHECK(inplace_dims<2>{}.rank() == 0);
}

TEST_CASE("R32: a list of extents rejects more values than it holds, and values above the maximum of std::int64_t") {
    fails(errc::rank, [] { static_cast<void>(inplace_dims<2>{std::vector<int>(3, 1)}); },
          {"the rank is 3", "at most 2"});
    fails(errc::rank, [] { static_cast<void>(inplace_dims<1>{mdspan_extents{2, 3}}); }, {"the rank is 2"});
    auto const far = std::numeric_limits<std::uint64_t>::max();
    fails(errc::overflow, [&] { static_cast<void>(inplace_dims<2>{1, far}); },
          {"dimension 1", "18446744073709551615", "(R32)"});
}

TEST_CASE("R32: the error of a list of extents has the location of the caller") {
    auto const far = std::numeric_limits<std::uint64_t>::max();
    auto const check = [](auto make, unsigned line) {
        try {
            make();
            FAIL("no error");
        } catch (ferry::error const& e) {
            CHECK(doctest::String{e.where().file_name()} == __FILE__);
            CHECK(e.where().line() == line);
        }
    };
    // clang-format off
    check([&] { static_cast<void>(inplace_dims<2>{far, 1}); }, __LINE__);
    check([&] { static_cast<void>(inplace_dims<2>{1, far}); }, __LINE__);
    check([&] { static_cast<void>(ferry::element_strides<1>({far}, 4)); }, __LINE__);
    // clang-format on
}

TEST_CASE("R25: a list of extents rejects a null list with a rank") {
    fails(errc::shape, [] { static_cast<void>(inplace_dims<2>{ferry::shape_view{nullptr, 2}}); }, {"NULL", "(R25)"});
    CHECK(inplace_dims<2>{ferry::shape_view{}}.rank() == 0);
}

TEST_CASE("R30: strides in bytes become strides in elements, and must be multiples of the element size") {
    CHECK(ferry::element_strides<2>({std::size_t{32}, 4}, sizeof(float)) == inplace_dims<2>{8, 1});
    CHECK(ferry::element_strides<2>({-32, 4}, sizeof(float)) == inplace_dims<2>{-8, 1});
    CHECK(ferry::element_strides<2>({}, sizeof(float)).rank() == 0);
    fails(errc::strides, [] { static_cast<void>(ferry::element_strides<2>({30, 4}, 4)); },
          {"multiple of the element size, 4 bytes", "(R30)"});
    fails(errc::strides, [] { static_cast<void>(ferry::element_strides<2>({32, 4}, 0)); });
}

TEST_CASE("D17: the results of try_make and try_element_strides are the lists, or the errors that are thrown") {
    auto const far = std::numeric_limits<std::uint64_t>::max();
    CHECK(*inplace_dims<2>::try_make(std::vector<int>{2, 3}) == inplace_dims<2>{2, 3});
    CHECK(*inplace_dims<2>::try_make(mdspan_extents{2, 3}) == inplace_dims<2>{2, 3});
    both_fail(errc::rank, [] { static_cast<void>(inplace_dims<2>{std::vector<int>(3, 1)}); },
              [] { return inplace_dims<2>::try_make(std::vector<int>(3, 1)); });
    both_fail(errc::rank, [] { static_cast<void>(inplace_dims<1>{mdspan_extents{2, 3}}); },
              [] { return inplace_dims<1>::try_make(mdspan_extents{2, 3}); });
    both_fail(errc::overflow, [&] { static_cast<void>(inplace_dims<2>{std::vector<std::uint64_t>{1, far}}); },
              [&] { return inplace_dims<2>::try_make(std::vector<std::uint64_t>{1, far}); }, {"dimension 1"});
    both_fail(errc::shape, [] { static_cast<void>(inplace_dims<2>{ferry::shape_view{nullptr, 2}}); },
              [] { return inplace_dims<2>::try_make(ferry::shape_view{nullptr, 2}); });
    CHECK(*ferry::try_element_strides<2>({32, 4}, 4) == inplace_dims<2>{8, 1});
    both_fail(errc::strides, [] { static_cast<void>(ferry::element_strides<2>({30, 4}, 4)); },
              [] { return ferry::try_element_strides<2>({30, 4}, 4); });
}
