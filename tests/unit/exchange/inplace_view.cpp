#include <ferry/ferry.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace {

/// An array with separate rows and columns, whose extents no shape_view can reference.
struct grid {
    std::shared_ptr<std::vector<float>> values;
    std::size_t rows = 0;
    int columns = 0;
};

grid counting(std::size_t rows, int columns) {
    grid g{std::make_shared<std::vector<float>>(rows * static_cast<std::size_t>(columns)), rows, columns};
    std::iota(g.values->begin(), g.values->end(), 1.f);
    return g;
}

/// The same, with strides in bytes and a member function.
struct column_major {
    std::vector<double> values;
    std::vector<int> extents, byte_strides;

    ferry::inplace_view<4> ferry_view() const {
        return {values.data(), extents, ferry::element_strides<4>(byte_strides, sizeof(double))};
    }
};

}  // namespace

template <>
struct ferry::array_traits<grid> {
    static inplace_view<2> view(grid& g) { return {g.values->data(), {g.rows, g.columns}}; }
    static inplace_view<2> view(grid const& g) { return {std::as_const(*g.values).data(), {g.rows, g.columns}}; }
    static grid share(grid const& g) { return g; }
    static grid allocate(data_type, shape_view s, device) {
        return {std::make_shared<std::vector<float>>(static_cast<std::size_t>(s[0] * s[1])),
                static_cast<std::size_t>(s[0]), static_cast<int>(s[1])};
    }
};

TEST_CASE("R7: arrays with separate rows and columns are moved, shared, copied and borrowed by an inplace_view") {
    auto g = counting(2, 3);
    auto const* const elements = g.values->data();
    auto const check = [](ferry::tensor_view const& v) {
        CHECK((v.rank() == 2 && v.extent(0) == 2 && v.extent(1) == 3 && v.stride(0) == 3));
        CHECK(static_cast<float const*>(v.data())[5] == 6);
    };
    check(ferry::view_of(g));
    auto const lent = ferry::borrow(std::as_const(g));
    check(lent.view());
    CHECK(lent.view().is_read_only());
    auto const shared = ferry::to_dlpack(g);
    check(shared.view());
    CHECK(shared.view().data() == elements);
    auto const copied = ferry::to_dlpack(g, {.copy = ferry::copy_policy::always});
    check(copied.view());
    CHECK(copied.view().data() != elements);
    auto const hosted = ferry::to_host(g);
    check(hosted.view());
    auto const moved = ferry::to_dlpack(std::move(g));
    check(moved.view());
    CHECK(moved.view().data() == elements);
}

TEST_CASE("R7: make_managed accepts the inplace_view of the array that a std::shared_ptr owns") {
    auto const owner = std::make_shared<grid>(counting(2, 3));
    auto const tensor = ferry::make_managed(std::shared_ptr{owner}, ferry::view_of(*owner));
    CHECK(tensor.as<float, 2>()(1, 2) == 6);
    CHECK(owner.use_count() == 2);
}

TEST_CASE("R30: an array with strides in bytes is exported by an inplace_view") {
    column_major m{{1, 4, 2, 5, 3, 6}, {2, 3}, {8, 16}};
    auto const t = ferry::to_dlpack(std::move(m));
    auto const v = t.as<double const, 2>();
    CHECK((v(0, 2) == 3 && v(1, 0) == 4 && v.stride(0) == 1));
}

TEST_CASE("R53: an inplace_view is copied and borrowed like a tensor_view") {
    float data[6] = {1, 2, 3, 4, 5, 6};
    ferry::inplace_view<2> const v{data, {2, 3}};
    auto const copy = ferry::to_dlpack(v, {.copy = ferry::copy_policy::always});
    CHECK((copy.as<float, 2>()(1, 2) == 6));
    ferry::borrowed_tensor const lent = ferry::borrow(v);
    CHECK(lent.view().data() == data);
}

namespace {

/// Its const overload makes the other's result read-only.
struct two_overloads {
    float values[6] = {1, 2, 3, 4, 5, 6};
    ferry::inplace_view<2> ferry_view() { return {values, {2, 3}}; }
    ferry::inplace_view<2> ferry_view() const { return const_cast<two_overloads*>(this)->ferry_view().as_read_only(); }
};

}  // namespace

TEST_CASE("R11: an inplace_view that was made read-only contains its extents") {
    two_overloads const a;
    auto const copied = ferry::to_dlpack(a, {.copy = ferry::copy_policy::always});
    CHECK(copied.as<float, 2>()(1, 2) == 6);
    auto const lent = ferry::borrow(a);
    CHECK(lent.view().is_read_only());
    CHECK(lent.view().extent(1) == 3);
    auto const pinned = ferry::view_of(a).with_device({ferry::device_type::cuda_host}, ferry::flags::none);
    CHECK(pinned.extent(0) == 2);
    CHECK(pinned.device().type == ferry::device_type::cuda_host);
}
