#include <ferry/exchange/borrow.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/tensor/slice.hpp>
#include <ferry/tensor/inplace_view.hpp>
#include <ferry/tensor/typed_view.hpp>
#include <support/allocation_failure.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace {

struct plain {
    std::vector<float> values{1, 2, 3, 4, 5, 6};
    std::vector<std::int64_t> shape{2, 3};
    std::vector<std::int64_t> strides{3, 1};
    ferry::tensor_view ferry_view() { return {values.data(), shape, strides}; }
    ferry::tensor_view ferry_view() const { return {values.data(), shape, strides}; }
};

/// Describes its elements by a view that contains the extents.
struct matrix {
    float values[6] = {1, 2, 3, 4, 5, 6};
    ferry::inplace_view<2> ferry_view() { return {values, {2, 3}}; }
    ferry::inplace_view<2> ferry_view() const { return {values, {2, 3}}; }
};

/// Returns whether the extents and strides are stored in `b`.
bool contains_layout(ferry::borrowed_tensor const& b) {
    auto const* const begin = reinterpret_cast<char const*>(&b);
    auto const inside = [&](std::int64_t const* list) {
        auto const* const at = reinterpret_cast<char const*>(list);
        return at >= begin && at < begin + sizeof b;
    };
    return inside(b.get()->dl_tensor.shape) && inside(b.get()->dl_tensor.strides);
}

float sum(DLTensor const* t) {
    float total = 0;
    for (std::int64_t i = 0; i < t->shape[0] * t->shape[1]; ++i) total += static_cast<float const*>(t->data)[i];
    return total;
}

}  // namespace

TEST_CASE("R75: borrow exports an array for a call without an allocation") {
    plain a;
    support::allocation_window const window;
    auto const lent = ferry::borrow(a);
    auto const total = sum(lent.dltensor());
    auto const allocations = window.allocations();
    CHECK(total == 21.0f);
    CHECK(allocations == 0);
    bool const has_deleter = lent.get()->deleter != nullptr;
    CHECK(!has_deleter);  // R5
    CHECK(lent.view().data() == a.values.data());
}

TEST_CASE("R11: borrow of a const array is read-only") {
    plain const a;
    auto const lent = ferry::borrow(a);
    CHECK(lent.view().is_read_only());
    CHECK((lent.get()->flags & 1) == 1);
    plain b;
    auto const writable = ferry::borrow(b);
    CHECK(!writable.view().is_read_only());
}

TEST_CASE("R32: borrow validates the view of the array") {
    plain a;
    a.shape[0] = -1;
    support::fails(ferry::errc::shape, [&] { (void)ferry::borrow(a); }, {"ferry::borrow", "shape[0] is -1"});
    plain b;
    b.strides = {1};
    support::fails(ferry::errc::strides, [&] { (void)ferry::borrow(b); }, {"2 extents but 1 strides"});
}

TEST_CASE("R75: a view and a tensor that the caller keeps are borrowed") {
    plain a;
    auto const tensor = ferry::to_dlpack(plain{});
    auto from_view = ferry::borrow(ferry::view_of(a));
    auto const from_tensor = ferry::borrow(tensor);
    CHECK(from_view.view().data() == a.values.data());
    CHECK(from_tensor.view().data() == tensor.view().data());
    DLTensor* const not_const = from_view.dltensor();  // as many functions that only read take it
    CHECK(sum(not_const) == 21.0f);
    CHECK(tensor);
    auto moved = ferry::to_dlpack(plain{});
    auto const taken = std::move(moved);
    support::fails(ferry::errc::consumed, [&] { (void)ferry::borrow(moved); }, {"ferry::borrow", "is empty"});
    std::int64_t const negative[] = {-1};
    support::fails(ferry::errc::shape, [&] { (void)ferry::borrow(ferry::tensor_view{a.values.data(), negative}); },
                   {"shape[0] is -1"});
}

TEST_CASE("R7: temporary views are borrowed, and their extents and strides are copied") {
    matrix m;
    auto const from_small = ferry::borrow(ferry::view_of(m));
    CHECK(contains_layout(from_small));
    CHECK(sum(from_small.dltensor()) == 21.0f);
    auto const rows = ferry::as<float, 2>(ferry::view_of(m));
    auto const from_slice = ferry::borrow(rows.slice(ferry::full_extent, ferry::range_slice{.first = 1, .last = 3}));
    CHECK(contains_layout(from_slice));
    CHECK(from_slice.dltensor()->data == m.values + 1);
    CHECK(from_slice.dltensor()->strides[0] == 3);
    matrix const& read_only = m;
    auto const from_const = ferry::borrow(ferry::view_of(read_only));
    CHECK(from_const.view().is_read_only());
}

TEST_CASE("R29: a DLTensor* of elements that repeat is refused, and a DLTensor const* is returned") {
    float values[3] = {1, 2, 3};
    std::int64_t const shape[] = {2, 3}, none[] = {0, 3}, strides[] = {0, 1};
    auto repeated = ferry::borrow(ferry::tensor_view{values, shape, strides});
    support::both_fail(
        ferry::errc::strides, [&] { (void)repeated.dltensor(); }, [&] { return repeated.try_dltensor(); },
        {"ferry::borrowed_tensor::dltensor", "dimension 0 has stride 0", "(R29)", "const borrowed_tensor"});
    CHECK(std::as_const(repeated).dltensor()->strides[0] == 0);
    auto empty = ferry::borrow(ferry::tensor_view{values, none, strides});
    CHECK(empty.dltensor()->shape[0] == 0);
}

TEST_CASE("R11, R75: a DLTensor* of read-only data is refused, and a DLTensor const* is returned") {
    plain const a;
    auto lent = ferry::borrow(a);
    support::fails(ferry::errc::read_only, [&] { (void)lent.dltensor(); },
                   {"ferry::borrowed_tensor::dltensor", "is read-only", "const borrowed_tensor"});
    CHECK(sum(std::as_const(lent).dltensor()) == 21.0f);
    CHECK((lent.get()->flags & 1) == 1);
    plain b;
    auto writable = ferry::borrow(b);
    DLTensor* const t = writable.dltensor();
    CHECK(t->data == b.values.data());
}
