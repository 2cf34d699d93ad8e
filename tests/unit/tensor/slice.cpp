// Slices of typed views.
#include <ferry/tensor/as.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/slice.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>

using ferry::access_from;
using ferry::as;
using ferry::errc;
using ferry::layout;
using ferry::range_slice;
using ferry::tensor_view;
using support::both_fail;
using support::fails;

namespace {
constexpr auto all = ferry::full_extent;
struct cube {
    std::int32_t data[24];
    std::int64_t shape[3] = {2, 3, 4};
    cube() {
        for (int i = 0; i < 24; ++i) data[i] = i;
    }
    [[nodiscard]] ferry::typed_view<std::int32_t, 3> view() { return as<std::int32_t, 3>(tensor_view{data, shape}); }
};
}  // namespace

TEST_CASE("a range_slice selects [first, last) at a distance of its stride, and the slice references the same elements") {
    cube c;
    auto const v = c.view().slice(all, all, range_slice{.stride = 2});
    CHECK(v.extent(0) == 2);
    CHECK(v.extent(2) == 2);
    CHECK(v.stride(2) == 2);
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 3; ++j)
            for (int k = 0; k < 2; ++k) CHECK(v(i, j, k) == c.view()(i, j, 2 * k));
    auto const part = c.view().slice(range_slice{1, 2}, range_slice{.first = 1}, range_slice{.last = 3, .stride = 2});
    CHECK(part.size() == 4);
    CHECK(part(0, 1, 1) == c.view()(1, 2, 2));
    part(0, 0, 0) = 99;
    CHECK(c.data[16] == 99);
    CHECK(c.view().slice(all, all, range_slice{1, 4, 2}).extent(2) == 2);  // 1, 3
    CHECK(c.view().slice(all, all, range_slice{0, 4, 3}).extent(2) == 2);  // 0, 3
}

TEST_CASE("an index removes its dimension") {
    cube c;
    auto const row = c.view().slice(1, 2, all);
    CHECK(row.rank() == 1);
    CHECK(row[3] == 23);
    auto const column = c.view().slice(all, 1, 0);
    CHECK(column.extent(0) == 2);
    CHECK(column[1] == 16);
    CHECK(c.view().slice(1, 0, 3)() == 15);
    CHECK(row.slice(range_slice{1, 3}).slice(1)() == 22);
}

TEST_CASE("R28: a negative step reverses the order, from the last index of the range") {
    cube c;
    auto const row = c.view().slice(0, 0, range_slice{.stride = -1});
    CHECK(row[0] == 3);
    CHECK(row[3] == 0);
    auto const odd = c.view().slice(0, 0, range_slice{.first = 1, .stride = -2});
    CHECK(odd.extent(0) == 2);
    CHECK(odd[0] == 3);
    CHECK(odd[1] == 1);
    CHECK(row.slice(range_slice{0, 2})[1] == 2);
}

TEST_CASE("R26: an empty range selects nothing, and does not move the data") {
    cube c;
    auto const nothing = c.view().slice(all, range_slice{3, 3}, 1);
    CHECK(nothing.size() == 0);
    CHECK(nothing.data() == c.data);
    CHECK(ferry::typed_view<float, 1>{}.slice(all).size() == 0);
    CHECK(c.view().slice(0, 0, range_slice{.stride = INT64_MAX}).size() == 1);
    auto const last = c.view().slice(0, 0, range_slice{.stride = INT64_MIN});
    CHECK(last.size() == 1);
    CHECK(last[0] == 3);
}

TEST_CASE("R26: a slice of an empty view does not use its strides, which may have any value") {
    std::int64_t const shape[] = {8, 0, 8}, garbage[] = {INT64_MAX, 7, INT64_MIN};
    auto const v = as<float, 3>(tensor_view{static_cast<float*>(nullptr), shape, garbage});
    auto const some = v.slice(5, all, range_slice{.first = 2, .stride = -3});
    CHECK(some.data() == nullptr);
    CHECK(some.extent(1) == 2);
    CHECK(some.size() == 0);
}

TEST_CASE("bounds outside of the extent are refused, with the location of the call") {
    cube c;
    auto const v = c.view();
    fails(errc::out_of_range, [&] { static_cast<void>(v.slice(all, range_slice{1, 4}, all)); },
          {"ferry::typed_view::slice", "range [1, 4)", "dimension 1 of extent 3", "first <= last <= extent"});
    fails(errc::out_of_range, [&] { static_cast<void>(v.slice(range_slice{-1, 2}, all, all)); },
          {"[-1, 2)", "dimension 0"});
    fails(errc::out_of_range, [&] { static_cast<void>(v.slice(all, range_slice{2, 1}, all)); }, {"[2, 1)"});
    fails(errc::out_of_range, [&] { static_cast<void>(v.slice(all, range_slice{.first = 4}, all)); }, {"[4, whole)"});
    fails(errc::out_of_range, [&] { static_cast<void>(v.slice(2, all, all)); }, {"index 2", "dimension 0 of extent 2"});
    fails(errc::out_of_range, [&] { static_cast<void>(v.slice(all, all, -1)); }, {"index -1", "dimension 2"});
    fails(errc::argument, [&] { static_cast<void>(v.slice(all, range_slice{.stride = 0}, all)); },
          {"dimension 1", "is 0"});
    try {
        static_cast<void>(v.slice(all, 3, all));
    } catch (ferry::error const& e) {
        CHECK(doctest::String{e.where().file_name()} == __FILE__);
        CHECK(e.where().line() == __LINE__ - 3);
    }
}

TEST_CASE("D17: try_slice returns the view that slice returns, or the first error that it throws") {
    cube c;
    auto const v = c.view();
    auto const part = v.try_slice(1, all, range_slice{.first = 1});
    static_assert(std::is_same_v<decltype(*part), decltype(v.slice(1, all, range_slice{})) const&>);
    REQUIRE(part.has_value());
    CHECK(part->data() == v.slice(1, all, range_slice{.first = 1}).data());
    CHECK(part->extent(1) == 3);
    CHECK(v.try_slice(all, all, 0)->rank() == 2);
    CHECK(v.try_slice(range_slice{0, 1}, 2, 0)->extent(0) == 1);
    both_fail(errc::out_of_range, [&] { static_cast<void>(v.slice(all, 3, range_slice{.stride = 0})); },
              [&] { return v.try_slice(all, 3, range_slice{.stride = 0}); }, {"ferry::typed_view::slice", "index 3"});
    both_fail(errc::argument, [&] { static_cast<void>(v.slice(range_slice{.stride = 0}, 3, all)); },
              [&] { return v.try_slice(range_slice{.stride = 0}, 3, all); });
    CHECK(v.try_slice(2, all, all).error().where().line() == __LINE__);
}

TEST_CASE("a slice of a contiguous view, of const elements or of device memory has the same type of access") {
    cube c;
    tensor_view const v{c.data, c.shape};
    auto const line = as<std::int32_t const, 3, access_from::host, layout::contiguous>(v).slice(all, 1, all);
    static_assert(std::is_same_v<decltype(line), ferry::typed_view<std::int32_t const, 2> const>);
    CHECK(line(1, 3) == 19);
    auto const remote = as<std::int32_t, 3, access_from::device>(v).slice(1, all, 2);
    static_assert(std::is_same_v<decltype(remote), ferry::typed_view<std::int32_t, 1, access_from::device> const>);
    CHECK(remote.data() == c.data + 14);
    CHECK(remote.stride(0) == 4);
}

TEST_CASE("indices before full_extent select contiguous elements of a contiguous view") {
    cube c;
    auto const v = as<std::int32_t, 3, access_from::host, layout::contiguous>(tensor_view{c.data, c.shape});
    auto const is_contiguous = []<class T, int Rank, access_from A, layout L>(ferry::typed_view<T, Rank, A, L> const&) {
        return L == layout::contiguous;
    };
    auto const matrix = v.slice(1, all, all);
    CHECK(is_contiguous(matrix));
    CHECK((matrix.size() == 12 && matrix(2, 3) == 23 && matrix.span()[4] == 16));
    auto const row = matrix.slice(2, all);
    CHECK((is_contiguous(row) && row.span().data() == c.data + 20 && row.span().size() == 4));
    auto const element = v.slice(1, 2, 3);
    CHECK((is_contiguous(element) && element.span()[0] == 23));
    CHECK(is_contiguous(v.slice(all, all, all)));
    CHECK(!is_contiguous(v.slice(all, all, 1)));
    CHECK(!is_contiguous(v.slice(all, 1, all)));
    CHECK(!is_contiguous(v.slice(1, all, range_slice{})));
    CHECK(!is_contiguous(v.slice(range_slice{}, all, all)));
    CHECK(!is_contiguous(c.view().slice(1, all, all)));
}

TEST_CASE("a slice is exported with its owner in one call") {
    auto const owner = std::make_shared<cube>();
    auto const read_only = ferry::make_managed(
        std::shared_ptr{owner}, as<std::int32_t const, 3>(tensor_view{owner->data, owner->shape}).slice(all, all, range_slice{.stride = 2}));
    CHECK(read_only.is_read_only());  // R11
    CHECK(read_only.view().stride(2) == 2);
    CHECK(read_only.as<std::int32_t const, 3>()(1, 2, 1) == 22);
    auto const writable = ferry::try_make_managed(std::shared_ptr{owner}, owner->view().slice(1, all, 3));
    CHECK(writable.value().as<std::int32_t, 1>()(2) == 23);
    CHECK(owner.use_count() == 3);
}

TEST_CASE("R19: a slice of packed elements begins at a byte") {
    unsigned char bytes[] = {0x21, 0x43, 0x65};
    std::int64_t const shape[] = {6};
    auto const nibbles = as<ferry::uint4_t, 1>(tensor_view{bytes, ferry::dtype_of<ferry::uint4_t>, shape});
    auto const some = nibbles.slice(range_slice{2, 5, 2});
    CHECK(some[0].bits == 3);
    CHECK(some[1].bits == 5);
    fails(errc::alignment, [&] { static_cast<void>(nibbles.slice(range_slice{.first = 1})); }, {"element 1", "R19"});
    tensor_view const padded{bytes, ferry::dtype_of<ferry::uint4_t>, shape, {}, ferry::cpu, ferry::flags::subbyte_padded};
    auto const spaced = as<ferry::uint4_t, 1>(padded).slice(range_slice{1, 3});
    CHECK(spaced[0].bits == 3);
    CHECK((spaced.is_padded() && !nibbles.is_padded()));  // R13
}
