// Typed views of elements with stride 0.
#include <ferry/tensor/as.hpp>

#include "support/fails.hpp"

#include <doctest/doctest.h>

#include <cstdint>

TEST_CASE("R29: elements with stride 0 require as<T const>") {
    float one[2] = {3, 4};
    std::int64_t const shape[] = {5, 2}, strides[] = {0, 1};
    ferry::tensor_view const v{one, shape, strides};
    CHECK(ferry::as<float const, 2>(v)(4, 1) == 4);
    support::fails(ferry::errc::strides, [&] { static_cast<void>(ferry::as<float, 2>(v)); },
                   {"dimension 0", "R29", "as<T const>", "copy_policy::always"});
    std::int64_t const row[] = {1, 2}, nothing[] = {0, 2};
    CHECK(ferry::as<float, 2>(ferry::tensor_view{one, row, strides})(0, 1) == 4);
    CHECK(ferry::as<float, 2>(ferry::tensor_view{one, nothing, strides}).size() == 0);
}
