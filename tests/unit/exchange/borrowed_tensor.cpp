#include <ferry/exchange/borrow.hpp>

#include <support/allocation_failure.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <vector>

using ferry::borrowed_tensor;
using ferry::errc;
using ferry::flags;
using ferry::tensor_view;
using support::fails;

namespace {
float memory[64];
std::int64_t const two_by_three[] = {2, 3};
}  // namespace

TEST_CASE("R5: a borrowed tensor has no deleter and no context") {
    borrowed_tensor const b{tensor_view{memory, two_by_three}};
    CHECK((b.get()->deleter == nullptr));
    CHECK(b.get()->manager_ctx == nullptr);
    CHECK(b.get()->version.major == 1);
    CHECK(b.get()->version.minor == 3);
    CHECK(b.dltensor() == &b.get()->dl_tensor);
}

TEST_CASE("D1: borrowing allocates nothing") {
    support::allocation_window window;
    {
        borrowed_tensor const b{tensor_view{memory, two_by_three}};
        CHECK(b.view().rank() == 2);
    }
    CHECK(window.allocations() == 0);
}

TEST_CASE("R23, R24, R35: a borrowed tensor has the same fields as any other export") {
    borrowed_tensor const b{tensor_view{memory, two_by_three, {}, {ferry::device_type::cuda_managed, 7}}};
    auto const& t = *b.dltensor();
    CHECK(t.data == memory);
    CHECK(t.byte_offset == 0);
    CHECK(t.ndim == 2);
    CHECK(t.shape[1] == 3);
    REQUIRE(t.strides != nullptr);
    CHECK(t.strides[0] == 3);
    CHECK(t.device.device_id == 0);
    CHECK(b.view().extent(0) == 2);
    CHECK(b.view().data() == memory);
}

TEST_CASE("R26: a borrowed empty tensor has no data") {
    std::int64_t const shape[] = {0, 3};
    borrowed_tensor const b{tensor_view{memory, shape}};
    CHECK(b.dltensor()->data == nullptr);
}

TEST_CASE("R11, R12: a borrowed tensor keeps READ_ONLY and never has IS_COPIED") {
    tensor_view const v{memory, ferry::dtype_of<float>, two_by_three, {}, ferry::cpu, flags{0xff}};
    borrowed_tensor const b{v};
    CHECK(b.get()->flags == 5);
    CHECK(b.view().is_read_only());
    CHECK_FALSE(b.view().is_copied());
}

TEST_CASE("R25: 64 dimensions can be borrowed, more are refused") {
    std::vector<std::int64_t> const most(64, 1), more(65, 1);
    borrowed_tensor const b{tensor_view{memory, most}};
    CHECK(b.dltensor()->ndim == 64);
    CHECK(b.dltensor()->strides[63] == 1);
    fails(errc::rank, [&] { borrowed_tensor const c{tensor_view{memory, more}}; }, {"the rank is 65", "64", "to_dlpack"});
}

TEST_CASE("an invalid view cannot be borrowed") {
    std::int64_t const one[] = {1};
    fails(errc::strides, [&] { borrowed_tensor const b{tensor_view{memory, two_by_three, one}}; }, {"ferry::borrow: "});
    fails(errc::null_data, [&] { borrowed_tensor const b{tensor_view{static_cast<float*>(nullptr), two_by_three}}; },
          {"R26"});
    fails(errc::null_data, [&] { borrowed_tensor const b{tensor_view{}}; }, {"1 element"});
}
