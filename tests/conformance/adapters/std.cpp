// The adapters for std::vector, std::array, std::span and std::mdspan pass the kit.
#include "numbered.hpp"

#include <ferry/adapters/std.hpp>
#include <support/fails.hpp>

#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace {

using nested = std::array<std::array<std::int32_t, 3>, 2>;

std::vector<float> counting(ferry::shape_view s) {
    only(s.rank() > 0);
    std::vector<float> v(
        static_cast<std::size_t>(std::accumulate(s.begin(), s.end(), std::int64_t{1}, std::multiplies<>{})));
    std::iota(v.begin(), v.end(), 1.0f);
    return v;
}

}  // namespace

TEST_CASE("R7: a std::vector of any shape passes") {
    keeps<ferry::shaped<std::vector<float>>>([](ferry::shape_view s) { return ferry::shaped{counting(s), s}; },
                                             of_owners);
}

TEST_CASE("R7: nested std::arrays pass") {
    struct maker {
        nested operator()(ferry::shape_view s) const {
            only(s == shape());
            return {{{1, 2, 3}, {4, 5, 6}}};
        }
        ferry::shape_view shape() const { return ferry::detail::extents_of<nested>.values; }
    };
    keeps<nested>(maker{}, of_owners);
}

TEST_CASE("R11: a std::span passes, and a span of const elements is read-only") {
    std::vector<std::vector<float>> alive;
    keeps<ferry::shaped<std::span<float>>>(
        [&](ferry::shape_view s) { return ferry::shaped{std::span{alive.emplace_back(counting(s))}, s}; }, of_handles);
    std::vector<float> const v{1, 2};
    ferry::shaped lent{std::span{v}};
    CHECK(ferry::view_of(lent).is_read_only());
}

#if FERRY_HAS_STD_MDSPAN
TEST_CASE("R11: a std::mdspan of any strided layout passes, and one of const elements is read-only") {
    std::vector<std::vector<float>> alive;
    auto const extents = [](ferry::shape_view s) {
        only(s.rank() == 2);
        return std::dextents<int, 2>{static_cast<int>(s[0]), static_cast<int>(s[1])};
    };
    using right = std::mdspan<float, std::dextents<int, 2>>;
    keeps<ferry::shaped<right>>(
        [&](ferry::shape_view s) { return ferry::shaped{right{alive.emplace_back(counting(s)).data(), extents(s)}}; },
        of_handles);
    using left = std::mdspan<float, std::dextents<int, 2>, std::layout_left>;
    keeps<ferry::shaped<left>>(
        [&](ferry::shape_view s) {
            left const m{alive.emplace_back(counting(s)).data(), extents(s)};
            float n = 0;
            for (int i = 0; i < m.extent(0); ++i)
                for (int k = 0; k < m.extent(1); ++k) m[i, k] = ++n;
            return ferry::shaped{m};
        },
        of_handles);
    std::vector<float> const v(6);
    ferry::shaped lent{std::mdspan{v.data(), 2, 3}};
    CHECK(ferry::view_of(lent).is_read_only());
    CHECK(ferry::view_of(lent).extent(1) == 3);
    using huge = std::mdspan<char, std::dextents<std::uint64_t, 2>, std::layout_stride>;
    std::array<std::uint64_t, 2> const far{std::uint64_t{1} << 63, 1};
    support::fails(ferry::errc::overflow,
                   [&] { ferry::shaped{huge{nullptr, {std::dextents<std::uint64_t, 2>{1, 1}, far}}}; }, {"std::int64_t"});
}
#endif

TEST_CASE("R32: a shape of another size is rejected") {
    support::fails(ferry::errc::shape, [] { ferry::shaped{std::vector<float>(5), {2, 3}}; }, {"5", "6"});
    support::fails(ferry::errc::rank, [] { ferry::shaped{std::vector<float>(1), std::vector<int>(9, 1)}; });
}

TEST_CASE("the extents of a shaped container may be integers of any type") {
    std::vector<float> const v(6);
    for (auto const& s :
         {ferry::shaped{v, {std::size_t{2}, 3}}, ferry::shaped{v, std::vector{2, 3}},
          ferry::shaped{v, std::array<std::size_t, 2>{2, 3}}, ferry::shaped{v, std::vector<long long>{2, 3}}})
        CHECK((ferry::view_of(s).extent(0) == 2 && ferry::view_of(s).stride(0) == 3));
}

TEST_CASE("R25: NULL extents are rejected, except of rank 0") {
    for (int const rank : {1, 2})
        support::fails(ferry::errc::shape,
                       [&] { ferry::shaped{std::vector<float>(1), ferry::shape_view{nullptr, rank}}; },
                       {"NULL", "(R25)"});
    CHECK(ferry::shaped{std::vector<float>(1), ferry::shape_view{}}.get().size() == 1);
}
