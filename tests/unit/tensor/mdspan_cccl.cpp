// to_mdspan over cuda::std::mdspan, where CCCL is on the include path.
#include <doctest/doctest.h>

#if __has_include(<cuda/std/mdspan>)

#include <ferry/adapters/mdspan_cccl.hpp>

#include <support/mdspan_suite.hpp>

TEST_CASE("to_mdspan over cuda::std::mdspan shares the elements") {
    mdspan_suite::shares_elements<ferry::mdspan_family::cccl>();
}
TEST_CASE("R25, R26: to_mdspan over cuda::std::mdspan supports rank 0 and empty tensors") {
    mdspan_suite::takes_rank_0_and_empty<ferry::mdspan_family::cccl>();
}
TEST_CASE("R27: to_mdspan over cuda::std::mdspan normalises the stride of a dimension of extent 1") {
    mdspan_suite::normalises_size_1<ferry::mdspan_family::cccl>();
}
TEST_CASE("R11: a cuda::std::mdspan is exported and imported without a copy") {
    mdspan_suite::is_an_array<ferry::mdspan_family::cccl>();
}

#endif
