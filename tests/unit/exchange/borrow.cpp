#include <ferry/exchange/borrow.hpp>
#include <ferry/exchange/to_dlpack.hpp>
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
