// Exports of typed views and their slices.
#include <ferry/exchange/borrow.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/as.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using ferry::as;
using ferry::copy_policy;
using ferry::range_slice;
using ferry::tensor_view;

namespace {
constexpr auto all = ferry::full_extent;
std::int64_t const shape[] = {2, 3};
}  // namespace

TEST_CASE("D13: a slice is exported as a copy in one expression") {
    std::int32_t data[] = {0, 1, 2, 3, 4, 5};
    auto const v = as<std::int32_t, 2>(tensor_view{data, shape});
    auto const tensor = ferry::to_dlpack(v.slice(all, range_slice{.stride = 2}), {.copy = copy_policy::always});
    CHECK(tensor.view().is_contiguous());
    CHECK(tensor.is_copied());
    auto const copy = tensor.as<std::int32_t, 2>();
    CHECK(copy(0, 1) == 2);
    CHECK(copy(1, 0) == 3);
    CHECK(copy(1, 1) == 5);
    auto const row = ferry::to_dlpack(v.slice(1, all), {});  // cannot be shared
    CHECK(row.is_copied());
    CHECK(row.as<std::int32_t, 1>()[2] == 5);
    support::fails(ferry::errc::not_shareable,
                   [&] { static_cast<void>(ferry::to_dlpack(v.slice(0, all), {.copy = copy_policy::never})); });
    support::both_fail(
        ferry::errc::not_shareable,
        [&] { static_cast<void>(ferry::to_dlpack(tensor.view(), {.copy = copy_policy::never})); },
        [&] { return ferry::try_to_dlpack(tensor.view(), {.copy = copy_policy::never}); },
        {"ferry::to_dlpack", "a view owns no memory", "export its owner, call borrow()"});
    auto const whole = ferry::to_dlpack(v, {.copy = copy_policy::always});
    CHECK(whole.view().size() == 6);
}

TEST_CASE("R5: a slice in a variable is borrowed for a call") {
    std::int32_t data[] = {0, 1, 2, 3, 4, 5};
    auto const column = as<std::int32_t, 2>(tensor_view{data, shape}).slice(all, 1);
    auto const lent = ferry::borrow(column);
    CHECK(lent.dltensor()->data == data + 1);
    CHECK(lent.dltensor()->ndim == 1);
    CHECK(lent.dltensor()->strides[0] == 3);
    CHECK_FALSE(lent.view().is_read_only());
}

TEST_CASE("R11, R13: an export of a view keeps const, and padded elements") {
    std::int32_t data[] = {0, 1, 2, 3, 4, 5};
    tensor_view const kept{data, shape};
    auto const constant = as<std::int32_t const, 2, ferry::access_from::host, ferry::layout::contiguous>(kept);
    CHECK(ferry::view_of(constant).is_read_only());
    auto const open = as<std::int32_t>(kept);
    CHECK(ferry::view_of(open).size() == 6);
    unsigned char bytes[6] = {};
    tensor_view const v{bytes, ferry::dtype_of<ferry::uint4_t>, shape, {}, ferry::cpu, ferry::flags::subbyte_padded};
    auto const padded = as<ferry::uint4_t, 2>(v);
    CHECK(ferry::view_of(padded).is_padded());
    CHECK(ferry::view_of(padded).nbytes() == 6);
    ferry::typed_view<float> const nothing;
    auto const empty = ferry::borrow(nothing);
    CHECK(empty.view().is_empty());
}
