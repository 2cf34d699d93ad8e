// Strides that are never used may have any value.
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/space/copy.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

TEST_CASE("R27: the stride of a dimension of extent 1 is never used in arithmetic") {
    constexpr auto least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
    float const from[] = {1, 2, 3, 4};
    for (auto const wild : {least, most, least + 1, std::int64_t{-1}}) {
        float to[] = {0, 0};
        std::int64_t const shape[] = {1, 2, 1}, strides[] = {wild, 2, wild};
        CHECK(ferry::copy(ferry::tensor_view{to, shape}, ferry::tensor_view{from, shape, strides}) == 8);
        CHECK(to[0] == 1);
        CHECK(to[1] == 3);
    }
}
