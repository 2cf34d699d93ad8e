// Tests of to_mdspan for every implementation of mdspan.
#pragma once

#include <ferry/adapters/mdspan.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/exchange/borrow.hpp>
#include <ferry/tensor/mdspan.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

namespace mdspan_suite {

template <class Family>
void shares_elements() {
    int data[24] = {};
    for (int i = 0; i < 24; ++i) data[i] = i;
    std::int64_t const shape[] = {2, 3, 4}, strides[] = {1, 2, 6};
    auto const right = ferry::to_mdspan<Family>(
        ferry::as<int const, 3, ferry::access_from::host, ferry::layout::contiguous>(
            ferry::tensor_view{data, shape}));
    CHECK(right.extent(0) == 2);
    CHECK(right.extent(2) == 4);
    CHECK(right.mapping()(1, 2, 3) == 23);
    CHECK(right.accessor().access(right.data_handle(), 23) == 23);
    auto const turned = ferry::to_mdspan<Family>(ferry::as<int, 3>(ferry::tensor_view{data, shape, strides}));
    CHECK(turned.stride(1) == 2);
    CHECK(turned.mapping()(1, 2, 3) == 1 + 4 + 18);
    CHECK(turned.data_handle() == data);
}

template <class Family>
void takes_rank_0_and_empty() {
    float x = 5;
    std::int64_t const none[] = {3, 0, 2}, garbage[] = {-7, 0, 999};
    auto const scalar = ferry::to_mdspan<Family>(ferry::as<float, 0>(ferry::tensor_view{&x, {}}));
    CHECK(scalar.size() == 1);
    CHECK(scalar.mapping().required_span_size() == 1);
    auto const empty =
        ferry::to_mdspan<Family>(ferry::as<float, 3>(ferry::tensor_view{static_cast<float*>(nullptr), none, garbage}));
    CHECK(empty.extent(1) == 0);
    CHECK(empty.size() == 0);
}

template <class Family>
void normalises_size_1() {
    float data[12] = {};
    std::int64_t const shape[] = {1, 3, 1, 4, 1}, strides[] = {-5, 4, 0, 1, 1 << 30};
    auto const m = ferry::to_mdspan<Family>(ferry::as<float, 5>(ferry::tensor_view{data, shape, strides}));
    std::int64_t const want[] = {12, 4, 4, 1, 1};
    for (std::size_t i = 0; i < 5; ++i) CHECK(m.stride(i) == want[i]);
    CHECK(m.is_exhaustive());
}

/// For mdspans with an adapter: exports an mdspan and compares it with the mdspan of the export.
template <class Family>
void is_an_array() {
    int data[24] = {};
    for (int i = 0; i < 24; ++i) data[i] = i;
    std::int64_t const shape[] = {2, 3, 4}, strides[] = {1, 2, 6};
    auto const right = ferry::to_mdspan<Family>(
        ferry::as<int const, 3, ferry::access_from::host, ferry::layout::contiguous>(
            ferry::tensor_view{data, shape}));
    ferry::shaped const rows{right};
    auto const loan = ferry::borrow(rows);
    CHECK(loan.view().is_read_only());  // R11
    CHECK(loan.view().is_contiguous());
    CHECK(loan.view().data() == data);

    auto const turned = ferry::to_mdspan<Family>(ferry::as<int, 3>(ferry::tensor_view{data, shape, strides}));
    ferry::shaped lent{turned};
    ferry::managed_tensor const tensor = ferry::to_dlpack(lent);
    auto const back = ferry::to_mdspan<Family>(tensor.as<int, 3>());
    CHECK(back.data_handle() == data);
    CHECK(back.extents() == turned.extents());
    CHECK(back.mapping() == turned.mapping());
    CHECK(back.mapping()(1, 2, 3) == 1 + 4 + 18);

    float x = 5;
    ferry::shaped const scalar{ferry::to_mdspan<Family>(ferry::as<float, 0>(ferry::tensor_view{&x, {}}))};
    CHECK(ferry::view_of(scalar).rank() == 0);
    CHECK(ferry::view_of(scalar).data() == &x);
}

}  // namespace mdspan_suite
