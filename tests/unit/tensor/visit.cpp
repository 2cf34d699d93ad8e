// Dispatch on the data type of a tensor.
#include <ferry/tensor/for_each.hpp>
#include <ferry/tensor/visit.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using ferry::errc;
using ferry::tensor_view;
using ferry::visit;
using support::both_fail;
using support::fails;

namespace {

std::int64_t const shape[] = {2, 3};

double sum(tensor_view const& v) {
    return visit<float const, double const, std::uint8_t const>(v, [](auto const& x) {
        double total = 0;
        ferry::for_each(x, [&](auto e) { total += static_cast<double>(e); });
        return total;
    });
}

template <class... T>
concept visitable = requires(tensor_view const& v) { visit<T...>(v, [](auto const&) {}); };
struct unknown {};
static_assert(visitable<float> && visitable<float const, double> && !visitable<> && !visitable<float, unknown>);

}  // namespace

TEST_CASE("visit calls the function with a view of the data type of the tensor") {
    float f[] = {1, 2, 3, 4, 5, 6};
    double d[] = {1, 2, 3, 4, 5, 7};
    std::uint8_t u[] = {1, 2, 3, 4, 5, 8};
    CHECK(sum({f, shape}) == 21);
    CHECK(sum({d, shape}) == 22);
    CHECK(sum({u, shape}) == 23);
    CHECK(sum(tensor_view{u, shape}.as_read_only()) == 23);
}

TEST_CASE("visit returns what the function returns, also a reference, and passes the rank") {
    float f[] = {1, 2, 3, 4, 5, 6};
    tensor_view const v{f, shape};
    CHECK(visit<2, double, float>(v, [](auto const& x) { return x.extent(1); }) == 3);
    int calls = 0;
    int& same = visit<float>(v, [&](auto const& x) -> int& {
        static_assert(std::is_same_v<decltype(x), ferry::typed_view<float> const&>);
        x(1, 2) = 9;
        return calls;
    });
    CHECK(&same == &calls);
    CHECK(f[5] == 9);
    fails(errc::rank, [&] { visit<3, float>(v, [](auto const&) {}); }, {"rank is 2", "expected 3"});
}

TEST_CASE("visit refuses a data type that is not in its list, and the error contains the list") {
    std::int8_t i[6] = {};
    fails(errc::dtype, [&] { static_cast<void>(sum({i, shape})); },
          {"ferry::visit: ", "dtype is int8", "expected float32 or float64 or uint8", "add the type"});
    try {
        static_cast<void>(visit<float>(tensor_view{i, shape}, [](auto const&) {}));
    } catch (ferry::error const& e) {
        CHECK(doctest::String{e.where().file_name()} == __FILE__);
        CHECK(e.where().line() == __LINE__ - 3);
    }
}

TEST_CASE("R11: visit<T> refuses a read-only tensor, and visit<T const> accepts it") {
    float f[6] = {};
    tensor_view const v = tensor_view{f, shape}.as_read_only();
    fails(errc::read_only, [&] { visit<float>(v, [](auto const&) {}); }, {"R11", "call visit<T const>, or"});
    CHECK(visit<float const>(v, [](auto const& x) { return x.size(); }) == 6);
}

TEST_CASE("D17: try_visit returns the result of the function, or the error that visit throws") {
    float f[] = {1, 2, 3, 4, 5, 6};
    tensor_view const v{f, shape};
    auto const extent = ferry::try_visit<2, double, float>(v, [](auto const& x) { return x.extent(1); });
    static_assert(std::is_same_v<decltype(extent), ferry::result<std::int64_t> const>);
    REQUIRE(extent.has_value());
    CHECK(*extent == 3);
    CHECK(ferry::try_visit<float>(v, [](auto const& x) { x(0, 0) = 8; }).has_value());
    CHECK(f[0] == 8);
    auto const nothing = [](auto const&) {};
    both_fail(
        errc::dtype, [&] { visit<double, int>(v, nothing); }, [&] { return ferry::try_visit<double, int>(v, nothing); },
        {"ferry::visit", "expected float64 or int32"});
    both_fail(
        errc::read_only, [&] { visit<float>(v.as_read_only(), nothing); },
        [&] { return ferry::try_visit<float>(v.as_read_only(), nothing); }, {"ferry::visit"});
    auto const failing = [](auto const&) -> ferry::result<int> { return ferry::error{errc::driver, "f", "text"}; };
    auto const failed = ferry::try_visit<float>(v, failing);
    static_assert(std::is_same_v<decltype(failed), ferry::result<int> const>);
    CHECK(failed.error().code() == errc::driver);
}
