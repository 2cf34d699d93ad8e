#include <ferry/base/detail/checked.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <utility>

using ferry::detail::checked_add;
using ferry::detail::checked_multiply;

namespace {
constexpr auto biggest = INT64_MAX;
constexpr auto smallest = INT64_MIN;
}  // namespace

TEST_CASE("R32: checked_multiply is exact, and reports overflow") {
    std::int64_t out = 0;
    CHECK(checked_multiply(std::int64_t{1} << 31, std::int64_t{1} << 31, out));
    CHECK(out == std::int64_t{1} << 62);
    CHECK(checked_multiply(biggest, std::int64_t{-1}, out));
    CHECK(out == -biggest);
    CHECK_FALSE(checked_multiply(std::int64_t{1} << 32, std::int64_t{1} << 31, out));
    CHECK_FALSE(checked_multiply(smallest, std::int64_t{-1}, out));
    CHECK(checked_multiply(smallest, std::int64_t{0}, out));
    CHECK(out == 0);
}

TEST_CASE("R32: checked_add is exact, and reports overflow") {
    std::int64_t out = 0;
    CHECK(checked_add(biggest, smallest, out));
    CHECK(out == -1);
    CHECK_FALSE(checked_add(biggest, std::int64_t{1}, out));
    CHECK_FALSE(checked_add(smallest, std::int64_t{-1}, out));
    std::uint64_t wide = 0;
    CHECK_FALSE(checked_add(UINT64_MAX, std::uint64_t{1}, wide));
    CHECK(checked_add(UINT64_MAX, std::uint64_t{0}, wide));
}

TEST_CASE_TEMPLATE("R32: checked arithmetic of all numbers of eight bits agrees with that of int", T, std::int8_t, std::uint8_t) {
    int wrong = 0;
    for (int a = std::numeric_limits<T>::min(); a <= std::numeric_limits<T>::max(); ++a)
        for (int b = std::numeric_limits<T>::min(); b <= std::numeric_limits<T>::max(); ++b) {
            T out{};
            wrong += checked_multiply(static_cast<T>(a), static_cast<T>(b), out) != std::in_range<T>(a * b);
            wrong += out != static_cast<T>(a * b);
            wrong += checked_add(static_cast<T>(a), static_cast<T>(b), out) != std::in_range<T>(a + b);
            wrong += out != static_cast<T>(a + b);
        }
    CHECK(wrong == 0);
}

TEST_CASE("the result of checked arithmetic may alias an operand") {
    std::int64_t a = 6;
    CHECK(checked_multiply(a, std::int64_t{7}, a));
    CHECK(a == 42);
}
