#include <ferry/tensor/view.hpp>

#include <support/counting_producer.hpp>
#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <memory>

using ferry::flags;
using ferry::shape_view;
using ferry::strides_view;
using ferry::tensor_view;
using tensor = support::counting_producer;

namespace {
float memory[64];
std::int64_t const two_by_three[] = {2, 3};
constexpr std::int64_t big = std::int64_t{1} << 40;
}  // namespace

TEST_CASE("R11: a view of typed elements has their data type, and is read-only for const elements") {
    tensor_view const v{memory, two_by_three};
    CHECK(v.data() == memory);
    CHECK(v.dtype() == ferry::dtype_of<float>);
    CHECK(v.device() == ferry::cpu);
    CHECK(v.rank() == 2);
    CHECK(v.extent(1) == 3);
    CHECK(v.shape() == shape_view{two_by_three});
    CHECK_FALSE(v.is_read_only());
    float const* const constant = memory;
    CHECK(tensor_view{constant, two_by_three}.is_read_only());
    CHECK(v.as_read_only().is_read_only());
    CHECK_FALSE(v.is_read_only());
}

TEST_CASE("a view of a type known at run time") {
    void* const data = memory;
    void const* const constant = memory;
    tensor_view const v{data, {ferry::type_code::int_, 8},   two_by_three,
                        {},   {ferry::device_type::cuda, 1}, flags::is_copied};
    CHECK(v.dtype() == ferry::dtype_of<std::int8_t>);
    CHECK(v.device().id == 1);
    CHECK(v.is_copied());
    tensor_view const w{constant, {ferry::type_code::int_, 8}, two_by_three};
    CHECK(w.is_read_only());
    tensor_view const x{constant, {ferry::type_code::int_, 8}, two_by_three, {}, ferry::cpu, flags::subbyte_padded};
    CHECK(x.is_read_only());
    CHECK(x.is_padded());
}

TEST_CASE("R24: NULL strides are read as compact row-major") {
    std::int64_t const shape[] = {2, 3, 4};
    tensor_view const v{memory, shape};
    CHECK(v.strides().is_implicit());
    CHECK(v.stride(0) == 12);
    CHECK(v.stride(1) == 4);
    CHECK(v.stride(2) == 1);
    CHECK(v.is_contiguous());
    std::int64_t const empty[] = {2, 0, 4};
    CHECK(tensor_view{memory, empty}.stride(0) == 4);
}

TEST_CASE("R26, R32: an empty tensor with large extents does not overflow") {
    for (auto const& shape : {std::array<std::int64_t, 4>{0, big, big, big}, {big, big, big, 0}, {big, 0, big, big}}) {
        std::int64_t const strides[] = {1, big, big, 1};
        tensor_view const v{memory, shape}, w{memory, shape, strides};
        CHECK(v.size() == 0);
        CHECK(v.nbytes() == 0);
        CHECK(v.is_empty());
        CHECK(v.is_contiguous());
        CHECK(w.is_contiguous());
        static_cast<void>(v.stride(0));
    }
}

TEST_CASE("R25: a tensor of rank 0 has one element") {
    tensor_view const v{memory, {}};
    CHECK(v.rank() == 0);
    CHECK(v.size() == 1);
    CHECK(v.nbytes() == 4);
    CHECK(v.is_contiguous());
    CHECK(tensor_view{}.data() == nullptr);
}

TEST_CASE("R19: nbytes of packed elements") {
    tensor_view const v{memory, ferry::dtype_of<ferry::int4_t>, two_by_three};
    CHECK(v.nbytes() == 3);
    tensor_view const w{memory, ferry::dtype_of<ferry::int4_t>, two_by_three, {}, ferry::cpu, flags::subbyte_padded};
    CHECK(w.nbytes() == 6);
}

TEST_CASE("R26, R27, R28, R29: contiguity ignores strides of empty tensors and of extents of 1") {
    struct {
        std::array<std::int64_t, 3> shape, strides;
        bool contiguous;
    } const rows[] = {
        {{2, 3, 4}, {12, 4, 1}, true},        {{2, 3, 4}, {1, 2, 6}, false},  {{2, 3, 4}, {-12, 4, 1}, false},
        {{2, 3, 4}, {12, 0, 1}, false},       {{2, 3, 4}, {13, 4, 1}, false}, {{1, 3, 4}, {-77, 4, 1}, true},
        {{2, 1, 4}, {4, INT64_MIN, 1}, true}, {{2, 3, 1}, {3, 1, 99}, true},  {{1, 1, 1}, {0, 0, 0}, true},
        {{0, 3, 4}, {5, 5, 5}, true},         {{2, 3, 0}, {5, 5, 5}, true},   {{2, 0, 4}, {7, 7, 7}, true},
    };
    for (auto const& row : rows) {
        INFO(row.shape[0], " ", row.shape[1], " ", row.shape[2], " strides ", row.strides[0], " ", row.strides[1]);
        CHECK(tensor_view{memory, row.shape, row.strides}.is_contiguous() == row.contiguous);
    }
}

TEST_CASE("R23: a byte offset is added to an address, and not to a handle") {
    tensor p{memory, support::float32, {2}};
    p.tensor().byte_offset = 8;
    tensor_view const v{p.tensor(), flags::none};
    CHECK(v.data() == memory + 2);
    CHECK(v.byte_offset() == 0);
    for (int type : {4, 7, 8, 15}) {
        tensor_view const w{p.on(type).tensor(), flags::none};
        CHECK(w.data() == memory);
        CHECK(w.byte_offset() == 8);
    }
    tensor empty{nullptr, support::float32, {0}};
    empty.tensor().byte_offset = 8;
    tensor_view const x{empty.tensor(), flags::none};
    CHECK(x.data() == nullptr);
    CHECK(x.byte_offset() == 0);
}

TEST_CASE("R14: a view of a foreign struct references its lists and has its known flags") {
    tensor p{memory, support::float32, {2, 3}, {5, 1}};
    tensor_view const v{p.tensor(), flags{0xff}};
    CHECK(v.shape().data() == p.shape);
    CHECK(v.strides().data() == p.strides);
    CHECK(v.strides().rank() == 2);
    CHECK(v.stride(0) == 5);
    CHECK(v.flags() == flags{7});
}

TEST_CASE("R39: with_device returns a view of the same memory") {
    tensor_view const v{memory, two_by_three, {}, {ferry::device_type::cuda_host, 2}};
    tensor_view const w = v.with_device(ferry::cpu, flags::read_only);
    CHECK(w.device() == ferry::cpu);
    CHECK(w.is_read_only());
    CHECK(w.data() == v.data());
    CHECK(w.extent(1) == 3);
    CHECK(v.device().type == ferry::device_type::cuda_host);
}

TEST_CASE("R32: the size of a view whose elements overflow is 0") {
    for (auto const& bad : {std::array<std::int64_t, 2>{INT64_MAX, INT64_MAX}, {-2, -2}, {-4, 1}}) {
        tensor_view const v{memory, bad};
        CHECK(v.size() == 0);
        CHECK(v.nbytes() == 0);
    }
}

TEST_CASE("R11: the address for writes is refused for a read-only view") {
    static_assert(std::same_as<decltype(tensor_view{}.data()), void const*>);
    tensor_view const v{memory, two_by_three};
    CHECK(v.writable_data() == memory);
    CHECK(v.try_writable_data().value() == memory);
    auto const fixed = v.as_read_only();
    CHECK(fixed.data() == memory);
    CHECK((v.is_writable() && !fixed.is_writable()));
    CHECK_THROWS_AS(static_cast<void>(fixed.writable_data()), ferry::error);
    CHECK(fixed.try_writable_data().error().code() == ferry::errc::read_only);
    CHECK(tensor_view{v.data(), v.dtype(), v.shape()}.is_read_only());
    CHECK_FALSE(tensor_view{v.writable_data(), v.dtype(), v.shape()}.is_read_only());
}

TEST_CASE("R29: the address for writes is refused for elements that repeat") {
    std::int64_t const shape[] = {2, 3}, one[] = {1, 3}, none[] = {0, 3}, strides[] = {0, 1};
    tensor_view const repeated{memory, shape, strides};
    support::both_fail(
        ferry::errc::strides, [&] { (void)repeated.writable_data(); }, [&] { return repeated.try_writable_data(); },
        {"ferry::tensor_view::writable_data", "dimension 0 has stride 0", "(R29)", "call data()"});
    CHECK(repeated.data() == memory);
    CHECK_FALSE(repeated.is_writable());
    CHECK((tensor_view{memory, one, strides}.is_writable() && tensor_view{memory, none, strides}.is_writable()));
    CHECK(tensor_view{memory, one, strides}.writable_data() == memory);
    CHECK(tensor_view{memory, none, strides}.writable_data() == memory);
    CHECK(tensor_view{memory, shape, strides_view{strides, 1}}.writable_data() == memory);  // not validated
}

TEST_CASE("R24: elements with fewer strides than extents are not contiguous") {
    std::int64_t const extents[] = {2, 2}, strides[] = {2};
    auto const one = std::make_unique<std::int64_t[]>(1);
    one[0] = 2;
    CHECK_FALSE(tensor_view{memory, extents, ferry::strides_view{one.get(), 1}}.is_contiguous());
    CHECK_FALSE(tensor_view{memory, extents, strides}.is_contiguous());
}

TEST_CASE("views of the same elements are equal, whether the strides are implicit or not") {
    std::int64_t const same_shape[] = {2, 3}, compact[] = {3, 1}, transposed[] = {1, 2};
    tensor_view const v{memory, two_by_three};
    CHECK(v == tensor_view{memory, same_shape});
    CHECK(v == tensor_view{memory, same_shape, compact});  // R24
    CHECK(v != tensor_view{memory, same_shape, transposed});
    CHECK(v != tensor_view{memory + 1, two_by_three});
    CHECK(v != v.as_read_only());
    CHECK(v != tensor_view{memory, ferry::dtype_of<std::int32_t>, two_by_three});
    CHECK(v != tensor_view{memory, two_by_three, {}, {ferry::device_type::cuda_host, 0}});
    CHECK(v != tensor_view{memory, shape_view{two_by_three, 1}});
    std::int64_t const other[] = {3, 2};
    CHECK(v != tensor_view{memory, other});
    CHECK(tensor_view{} == tensor_view{});
}

TEST_CASE("R26, R27: equality ignores strides of empty tensors and of extents of 1, and reads no missing stride") {
    std::int64_t const row[] = {1, 3}, empty[] = {0, 3}, some[] = {-7, 1}, one[] = {3};
    CHECK(tensor_view{memory, row, some} == tensor_view{memory, row});
    CHECK(tensor_view{memory, empty, some} == tensor_view{memory, empty});
    CHECK(tensor_view{memory, two_by_three, one} != tensor_view{memory, two_by_three});
    CHECK(tensor_view{memory, two_by_three, one} == tensor_view{memory, two_by_three, one});
    CHECK(tensor_view{memory, shape_view{nullptr, 2}} != tensor_view{memory, two_by_three});
}
