#include <ferry/tensor/as.hpp>

#include <support/fails.hpp>

#include <doctest/doctest.h>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

using ferry::access_from;
using ferry::as;
using ferry::dynamic_rank;
using ferry::errc;
using ferry::flags;
using ferry::layout;
using ferry::tensor_view;
using support::both_fail;
using support::fails;

namespace {
std::int64_t const two_by_three[] = {2, 3};
constexpr std::int64_t big = std::int64_t{1} << 40;

struct numbers {
    alignas(64) std::int32_t data[24];
    numbers() {
        for (int i = 0; i < 24; ++i) data[i] = i;
    }
};

struct float4 {  // a vector type: four lanes
    float x, y, z, w;
};
}  // namespace

template <>
struct ferry::dtype_traits<float4> {
    static constexpr data_type value{type_code::float_, 32, 4};
};

TEST_CASE("R24: NULL strides are read as compact row-major, with static and with dynamic rank") {
    numbers n;
    std::int64_t const shape[] = {2, 3, 4};
    auto const fixed = as<std::int32_t, 3>(tensor_view{n.data, shape});
    tensor_view const v{n.data, shape};
    auto const open = as<std::int32_t>(v);
    CHECK(open.rank() == 3);
    int want = 0;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 3; ++j)
            for (int k = 0; k < 4; ++k, ++want) {
                CHECK(fixed(i, j, k) == want);
                CHECK(open(i, j, k) == want);
                CHECK(fixed.at(i, j, k) == want);
                std::int64_t const index[] = {i, j, k};
                CHECK(fixed[index] == want);
                CHECK(open[index] == want);
                CHECK(fixed[{i, j, k}] == want);
                CHECK(open.at({i, j, k}) == want);
            }
    CHECK(fixed.stride(0) == 12);
    CHECK(open.stride(0) == 12);
    CHECK(fixed.size() == 24);
    CHECK(open.size() == 24);
}

TEST_CASE("R28, R29: elements with negative and zero strides are indexed") {
    numbers n;
    std::int64_t const reversed[] = {-3, -1}, repeated[] = {0, 1}, transposed[] = {1, 2};
    auto const back = as<std::int32_t const, 2>(tensor_view{n.data + 5, two_by_three, reversed});
    CHECK(back(0, 0) == 5);
    CHECK(back(1, 2) == 0);
    auto const rows = as<std::int32_t const, 2>(tensor_view{n.data, two_by_three, repeated});
    CHECK(rows(0, 2) == 2);
    CHECK(rows(1, 2) == 2);
    tensor_view const t{n.data, two_by_three, transposed};
    CHECK(as<std::int32_t>(t)(1, 2) == 5);
}

TEST_CASE("R29: elements with stride 0 require as<T const>") {
    float one[2] = {3, 4};
    std::int64_t const shape[] = {5, 2}, strides[] = {0, 1};
    tensor_view const v{one, shape, strides};
    CHECK(as<float const, 2>(v)(4, 1) == 4);
    fails(errc::strides, [&] { static_cast<void>(as<float, 2>(v)); },
          {"dimension 0", "R29", "as<T const>", "copy_policy::always"});
    std::int64_t const row[] = {1, 2}, nothing[] = {0, 2};
    CHECK(as<float, 2>(tensor_view{one, row, strides})(0, 1) == 4);
    CHECK(as<float, 2>(tensor_view{one, nothing, strides}).size() == 0);
}

TEST_CASE("D3: elements are written through T and read through T const") {
    numbers n;
    tensor_view const v{n.data, two_by_three};
    as<std::int32_t, 2>(v)(1, 1) = 40;
    CHECK(n.data[4] == 40);
    as<std::int32_t, 2>(v).at(1, 1) = 41;
    CHECK(as<std::int32_t const, 2>(v)(1, 1) == 41);
    CHECK(&as<std::int32_t, 2>(v)(0, 1) == n.data + 1);
}

TEST_CASE("R25: the element of a tensor of rank 0 is read without indices") {
    std::int32_t x = 9;
    CHECK(as<std::int32_t, 0>(tensor_view{&x, {}})() == 9);
    tensor_view const v{&x, {}};
    CHECK(as<std::int32_t>(v).at() == 9);
    CHECK(as<std::int32_t, 0>(v).size() == 1);
}

TEST_CASE("R26, R32: an empty view has no elements, even if its other extents overflow") {
    std::int64_t const shape[] = {big, big, 0}, garbage[] = {INT64_MIN, 7, 0};
    tensor_view const v{static_cast<float*>(nullptr), shape, garbage};
    CHECK(as<float, 3>(v).size() == 0);
    CHECK(as<float>(v).size() == 0);
    auto const line = as<float, 3, access_from::host, layout::contiguous>(v);
    CHECK(line.span().empty());
    tensor_view const odd{reinterpret_cast<float*>(1), shape};
    CHECK(as<float, 3>(odd).size() == 0);  // R31: no elements to align
}

TEST_CASE("D4: a view of dynamic rank refuses any other number of indices than its rank") {
    numbers n;
    std::int64_t const shape[] = {1, 2, 3, 4}, strides[] = {24, 12, 4, 1}, three[] = {0, 1, 2};
    for (auto const& v : {tensor_view{n.data, shape}, tensor_view{n.data, shape, strides}}) {
        auto const open = as<std::int32_t>(v);
        CHECK(open(0, 1, 2, 3) == 23);
        fails(errc::rank, [&] { static_cast<void>(open(1)); }, {"1 indices", "rank 4", "one index for each dimension"});
        fails(errc::rank, [&] { static_cast<void>(open()); }, {"0 indices", "rank 4"});
        fails(errc::rank, [&] { static_cast<void>(open(0, 0, 0, 0, 0)); }, {"5 indices", "rank 4"});
        fails(errc::rank, [&] { static_cast<void>(open[three]); }, {"3 indices", "rank 4"});
        fails(errc::rank, [&] { static_cast<void>(as<std::int32_t, 4>(v)[three]); }, {"3 indices", "rank 4"});
        fails(errc::rank, [&] { static_cast<void>(open[ferry::shape_view{}]); }, {"0 indices", "rank 4"});
    }
}

TEST_CASE("R32: a view whose elements cannot be counted is refused") {
    numbers n;
    std::int64_t const negative[] = {-4}, many[] = {INT64_MAX, INT64_MAX}, extents[] = {2};
    fails(errc::shape,
          [&] {
              static_cast<void>(
                  as<std::int32_t, 1, access_from::host, layout::contiguous>(tensor_view{n.data, negative}));
          },
          {"ferry::as", "shape[0] is -4", "(R32)"});
    fails(errc::overflow, [&] { static_cast<void>(as<std::int32_t>(tensor_view{n.data, many})); }, {"(R32)"});
    fails(errc::rank, [&] { static_cast<void>(as<std::int32_t>(tensor_view{n.data, ferry::shape_view{extents, -1}})); },
          {"ndim is -1", "(R32)"});
}

TEST_CASE("R25, R32: a view of rank 1 or more without extents is refused") {
    numbers n;
    std::int64_t const steps[] = {3, 1};
    for (auto const strides : {ferry::strides_view{}, ferry::strides_view{steps}}) {
        tensor_view const v{n.data, ferry::shape_view{nullptr, 2}, strides};
        auto const is_refused = [](auto call) {
            fails(errc::shape, call, {"ferry::as", "shape is NULL with ndim 2", "(R25, R32)"});
        };
        is_refused([&] { static_cast<void>(as<std::int32_t, 2>(v)); });
        is_refused([&] { static_cast<void>(as<std::int32_t const, 2>(v)); });
        is_refused([&] { static_cast<void>(as<std::int32_t>(v)); });
        is_refused([&] { static_cast<void>(as<std::int32_t const, 2, access_from::host, layout::contiguous>(v)); });
    }
    CHECK(as<std::int32_t, 0>(tensor_view{n.data, ferry::shape_view{nullptr, 0}})() == 0);
}

TEST_CASE("the error of at() contains the index, the dimension and the extent") {
    numbers n;
    tensor_view const v{n.data, two_by_three};
    auto const fixed = as<std::int32_t, 2>(v);
    auto const open = as<std::int32_t>(v);
    fails(errc::out_of_range, [&] { static_cast<void>(fixed.at(0, 3)); }, {"index 3", "dimension 1", "extent 3"});
    fails(errc::out_of_range, [&] { static_cast<void>(fixed.at(-1, 0)); }, {"index -1", "dimension 0"});
    fails(errc::out_of_range, [&] { static_cast<void>(open.at(2, 0)); }, {"index 2", "dimension 0", "extent 2"});
    fails(errc::rank, [&] { static_cast<void>(open.at(1)); }, {"1 indices", "rank 2"});
    fails(errc::rank, [&] { static_cast<void>(open.at(1, 1, 1)); }, {"3 indices"});
    fails(errc::rank, [&] { static_cast<void>(open.at()); }, {"0 indices"});
}

TEST_CASE("[] indexes a view of rank 1, and any rank in C++23") {
    numbers n;
    std::int64_t const five[] = {5}, back[] = {-2};
    tensor_view const v{n.data + 8, five, back}, table{n.data, two_by_three};
    auto const line = as<std::int32_t, 1>(v);
    CHECK(line[0] == 8);
    CHECK(line[4u] == 0);
    line[1] = 60;
    CHECK(n.data[6] == 60);
    auto const open = as<std::int32_t>(v);
    CHECK(open[4] == 0);
    std::array<std::int64_t, 2> const last{1, 2};
    CHECK(as<std::int32_t>(table)[last] == 5);
    enum dimension { rows, columns };
    CHECK(line[rows] == 8);
    fails(errc::rank, [&] { static_cast<void>(as<std::int32_t>(table)[0]); }, {"1 indices", "rank 2"});
#if FERRY_HAS_MULTI_SUBSCRIPT
    CHECK(as<std::int32_t, 2>(table)[1, 2] == 5);
    CHECK(as<std::int32_t>(table)[1, 2] == 5);
    fails(errc::rank, [&] { static_cast<void>(as<std::int32_t>(table)[1, 2, 3]); }, {"3 indices", "rank 2"});
#endif
}

TEST_CASE("errors of element access have the location of the call") {
    numbers n;
    tensor_view const v{n.data, two_by_three};
    auto const fixed = as<std::int32_t, 2>(v);
    auto const open = as<std::int32_t>(v);
    int const before = __LINE__;
    void (*const calls[])(decltype(fixed)&, decltype(open)&) = {
        [](auto& f, auto&) { static_cast<void>(f.at(0, 3)); },
        [](auto&, auto& o) { static_cast<void>(o.at(2, 0)); },
        [](auto&, auto& o) { static_cast<void>(o.at()); },
        [](auto&, auto& o) { static_cast<void>(o(0)); },
        [](auto&, auto& o) { static_cast<void>(o()); },
        [](auto&, auto& o) { static_cast<void>(o[0]); },
        [](auto& f, auto&) { static_cast<void>(f[ferry::shape_view{two_by_three, 1}]); },
        [](auto& f, auto&) { static_cast<void>(f.at(ferry::shape_view{two_by_three, 1})); },
        [](auto&, auto& o) { static_cast<void>(o.at(ferry::shape_view{two_by_three, 2})); },
    };
    int line = before + 1;
    for (auto* const call : calls) {
        ++line;
        try {
            call(fixed, open);
            FAIL_CHECK("nothing was thrown");
        } catch (ferry::error const& e) {
            CHECK(doctest::String{e.where().file_name()} == __FILE__);
            CHECK(static_cast<int>(e.where().line()) == line);
        }
    }
}

TEST_CASE("bytes are uint8: DLPack has no other code for them") {
    std::byte bytes[6] = {};
    bytes[4] = std::byte{7};
    tensor_view const v{bytes, two_by_three};
    CHECK(v.dtype() == ferry::dtype_of<std::uint8_t>);
    CHECK(as<std::byte const, 2>(v)(1, 1) == std::byte{7});
    CHECK(as<std::uint8_t, 2>(v)(1, 1) == 7);
}

TEST_CASE("span() contains all elements of a contiguous view") {
    numbers n;
    auto const v = as<std::int32_t, 2, access_from::host, layout::contiguous>(tensor_view{n.data, two_by_three});
    CHECK(v.span().size() == 6);
    CHECK(v.span().data() == n.data);
    int sum = 0;
    for (auto const x : v.span()) sum += x;
    CHECK(sum == 15);
    std::int64_t const strides[] = {1, 2}, gap[] = {4, 1};
    fails(errc::strides,
          [&] {
              static_cast<void>(as<std::int32_t, 2, access_from::host, layout::contiguous>(
                  tensor_view{n.data, two_by_three, strides}));
          },
          {"ferry::as: ", "not contiguous", "layout::strided", "copy_policy::always"});
    fails(errc::strides, [&] {
        static_cast<void>(
            as<std::int32_t, 2, access_from::host, layout::contiguous>(tensor_view{n.data, two_by_three, gap}));
    });
}

TEST_CASE("R27: contiguity ignores the stride of a dimension of extent 1") {
    numbers n;
    std::int64_t const shape[] = {1, 3, 1}, strides[] = {-9, 1, 77};
    auto const v = as<std::int32_t, 3, access_from::host, layout::contiguous>(tensor_view{n.data, shape, strides});
    CHECK(v.span().size() == 3);
    CHECK(v(0, 2, 0) == 2);
}

TEST_CASE("another data type is refused, and the error contains both") {
    numbers n;
    tensor_view const v{n.data, two_by_three};
    fails(errc::dtype, [&] { static_cast<void>(as<float, 2>(v)); }, {"dtype is int32", "expected float32", "convert"});
    fails(errc::dtype, [&] { static_cast<void>(as<std::uint32_t, 2>(v)); }, {"expected uint32"});
    fails(errc::dtype, [&] { static_cast<void>(as<std::int64_t, 2>(v)); }, {"expected int64"});
    fails(errc::dtype, [&] { static_cast<void>(as<ferry::int4_t, 2>(v)); }, {"expected int4"});
}

TEST_CASE("R21: a tensor of vectors requires a vector type, and the error proposes uint8 in the producer") {
    alignas(16) float data[24] = {};
    data[5] = 7;
    tensor_view const v{data, {ferry::type_code::float_, 32, 4}, two_by_three};
    fails(errc::dtype, [&] { static_cast<void>(as<float, 2>(v)); }, {"float32x4", "R21", "uint8"});
    CHECK(as<float4, 2>(v)(0, 1).y == 7);
    CHECK(v.nbytes() == 96);
    tensor_view const torch_fp4{data, {ferry::type_code::float4_e2m1fn, 4, 2}, two_by_three};
    fails(errc::dtype, [&] { static_cast<void>(as<ferry::float4_e2m1fn const, 2>(torch_fp4)); },
          {"float4_e2m1fnx2", "R21"});
}

TEST_CASE("another rank is refused, unless the rank is dynamic") {
    numbers n;
    tensor_view const v{n.data, two_by_three};
    fails(errc::rank, [&] { static_cast<void>(as<std::int32_t, 3>(v)); }, {"rank is 2", "expected 3", "dynamic_rank"});
    fails(errc::rank, [&] { static_cast<void>(as<std::int32_t, 0>(v)); }, {"expected 0"});
    CHECK(as<std::int32_t>(v).rank() == 2);
}

TEST_CASE("R11: read-only data requires T const") {
    numbers n;
    tensor_view const v = tensor_view{n.data, two_by_three}.as_read_only();
    fails(errc::read_only, [&] { static_cast<void>(as<std::int32_t, 2>(v)); },
          {"(R11)", "as<T const>", "copy_policy::always"});
    CHECK(as<std::int32_t const, 2>(v)(0, 1) == 1);
}

TEST_CASE("R39: host access is allowed for device types 1, 3, 11 and 13 only") {
    numbers n;
    for (int type : {1, 3, 11, 13}) {
        tensor_view const v{n.data, two_by_three, {}, {static_cast<ferry::device_type>(type), 3}};
        CHECK(as<std::int32_t, 2>(v)(0, 1) == 1);
    }
    for (int type : {2, 9, 10, 12, 14, 16, 17, 18, 19, 20, 21}) {
        tensor_view const v{n.data, two_by_three, {}, {static_cast<ferry::device_type>(type), 3}};
        fails(errc::not_accessible, [&] { static_cast<void>(as<std::int32_t, 2>(v)); },
              {":3", "R39", "to_host", "access_from::device"});
        CHECK(as<std::int32_t, 2, access_from::device>(v).data() == n.data);
    }
}

TEST_CASE("data that is a handle has no typed view") {
    numbers n;
    for (int type : {4, 7, 8, 15}) {
        tensor_view const v{n.data, two_by_three, {}, {static_cast<ferry::device_type>(type), 0}};
        fails(errc::not_accessible, [&] { static_cast<void>(as<std::int32_t, 2, access_from::device>(v)); },
              {"handle", "the API of the device"});
        fails(errc::not_accessible, [&] { static_cast<void>(as<std::int32_t, 2>(v)); });
    }
}

TEST_CASE("R31: data must have the alignment of its type, but not 256 bytes") {
    alignas(64) unsigned char bytes[64] = {};
    for (int offset = 0; offset < 9; ++offset) {
        tensor_view const v{bytes + offset, ferry::dtype_of<double>, two_by_three};
        if (offset % 8 == 0) CHECK_NOTHROW(static_cast<void>(as<double, 2>(v)));
        else
            fails(errc::alignment, [&] { static_cast<void>(as<double, 2>(v)); },
                  {"aligned to 8 bytes", "(R31)", "copy_policy::always"});
        tensor_view const w{bytes + offset, ferry::dtype_of<std::uint8_t>, two_by_three};
        CHECK_NOTHROW(static_cast<void>(as<std::uint8_t, 2>(w)));
    }
    tensor_view const device{bytes + 1, ferry::dtype_of<double>, two_by_three, {}, {ferry::device_type::cuda, 0}};
    fails(errc::alignment, [&] { static_cast<void>(as<double, 2, access_from::device>(device)); });
}

TEST_CASE("R26: a view with elements and NULL data is refused") {
    fails(errc::null_data, [] { static_cast<void>(as<float, 0>(tensor_view{})); }, {"ferry::as: ", "data is NULL"});
    tensor_view const v{static_cast<float*>(nullptr), two_by_three};
    fails(errc::null_data, [&] { static_cast<void>(as<float, 2, access_from::device>(v)); });
}

TEST_CASE("complex numbers and bools are read") {
    std::complex<float> z[] = {{1, 2}, {3, 4}};
    bool b[] = {true, false};
    std::int64_t const two[] = {2};
    CHECK(as<std::complex<float>, 1>(tensor_view{z, two})(1).imag() == 4);
    CHECK_FALSE(as<bool const, 1>(tensor_view{b, two})(1));
}

TEST_CASE("R19: int4 elements are read by value, low nibble first") {
    unsigned char const bytes[] = {0x21, 0x43, 0x65};
    tensor_view const v{static_cast<void const*>(bytes), ferry::dtype_of<ferry::uint4_t>, two_by_three};
    auto const typed = as<ferry::uint4_t const, 2>(v);
    int want = 1;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 3; ++j, ++want) {
            CHECK(typed(i, j).bits == want);
            CHECK(typed.at(i, j).bits == want);
        }
    CHECK(typed.size() == 6);
}

TEST_CASE("R19: a packed element may extend over two bytes, and no byte after the last is read") {
    // Four 6-bit values, 1, 62, 33 and 21, in three bytes on the heap, where a sanitizer detects an access after them.
    unsigned const values[] = {1, 62, 33, 21};
    std::vector<unsigned char> bytes(3);
    for (unsigned i = 0; i < 24; ++i)
        if ((values[i / 6] >> (i % 6) & 1) != 0) bytes[i / 8] = static_cast<unsigned char>(bytes[i / 8] | 1u << i % 8);
    std::int64_t const four[] = {4}, back[] = {-1};
    tensor_view const v{bytes.data(), ferry::dtype_of<ferry::float6_e2m3fn>, four};
    for (int i = 0; i < 4; ++i) CHECK(as<ferry::float6_e2m3fn const, 1>(v)(i).bits == values[i]);
    tensor_view const last{bytes.data() + 2, ferry::dtype_of<ferry::uint4_t>, four, back};
    CHECK(as<ferry::uint4_t const, 1>(last)(0).bits == (bytes[2] & 15));
    CHECK(as<ferry::uint4_t const, 1>(last)(1).bits == bytes[1] >> 4);
    CHECK(as<ferry::uint4_t const, 1>(last)(3).bits == bytes[0] >> 4);
}

TEST_CASE("R13: padded sub-byte elements take a byte each") {
    unsigned char bytes[] = {0xf1, 0x02, 0x33};
    std::int64_t const three[] = {3};
    tensor_view const v{bytes, ferry::dtype_of<ferry::uint4_t>, three, {}, ferry::cpu, flags::subbyte_padded};
    auto const typed = as<ferry::uint4_t, 1>(v);
    CHECK(typed(0).bits == 1);
    CHECK(typed(1).bits == 2);
    CHECK(typed(2).bits == 3);
}

TEST_CASE("a view of static rank copies its extents") {
    numbers n;
    auto const v = [&] {
        std::array<std::int64_t, 2> shape{2, 3}, strides{3, 1};
        auto const inner = as<std::int32_t, 2>(tensor_view{n.data, shape, strides});
        shape = {-1, -1};
        strides = {-1, -1};
        return inner;
    }();
    CHECK(v.extent(1) == 3);
    CHECK(v(1, 2) == 5);
}

TEST_CASE("fewer strides than extents are refused") {
    numbers n;
    std::int64_t const one[] = {3};
    tensor_view const v{n.data, two_by_three, one};
    fails(errc::strides, [&] { static_cast<void>(as<std::int32_t, 2>(v)); }, {"2 extents but 1 strides"});
    fails(errc::strides, [&] { static_cast<void>(as<std::int32_t>(v)); });
}

namespace {
std::int64_t sum_of(ferry::typed_view<std::int32_t const> v) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < v.extent(0); ++i)
        for (std::int64_t j = 0; j < v.extent(1); ++j) sum += v(i, j);
    return sum;
}
}  // namespace

TEST_CASE("a view that is default-constructed has no elements") {
    ferry::typed_view<float, 3> const fixed;
    CHECK(fixed.data() == nullptr);
    CHECK(fixed.size() == 0);
    CHECK(fixed.extent(2) == 0);
    fails(errc::out_of_range, [&] { static_cast<void>(fixed.at(0, 0, 0)); }, {"extent 0"});
    ferry::typed_view<float> const open;
    CHECK(open.data() == nullptr);
    CHECK(open.rank() == 1);
    CHECK(open.size() == 0);
    fails(errc::out_of_range, [&] { static_cast<void>(open.at(0)); }, {"extent 0"});
    ferry::typed_view<float, 2, access_from::host, layout::contiguous> const line;
    CHECK(line.span().empty());
    constexpr ferry::typed_view<int, 1> nothing;
    static_assert(nothing.data() == nullptr && nothing.extent(0) == 0);
}

TEST_CASE("D3: a view of T converts to a view of T const, and a contiguous view to a strided one") {
    numbers n;
    std::int64_t const shape[] = {2, 3, 4};
    auto const line = as<std::int32_t, 3, access_from::host, layout::contiguous>(tensor_view{n.data, shape});
    ferry::typed_view<std::int32_t const, 3> const strided = line;
    CHECK(strided.data() == n.data);
    CHECK(strided.stride(0) == 12);
    CHECK(strided.stride(2) == 1);
    CHECK(strided(1, 2, 3) == 23);
    ferry::typed_view<std::int32_t const, 3, access_from::host, layout::contiguous> const constant = line;
    CHECK(constant.span()[23] == 23);
    unsigned char padded[] = {0xf1, 0x02};
    std::int64_t const two[] = {2};
    tensor_view const v{padded, ferry::dtype_of<ferry::uint4_t>, two, {}, ferry::cpu, flags::subbyte_padded};
    ferry::typed_view<ferry::uint4_t const, 1> const nibbles = as<ferry::uint4_t, 1>(v);
    CHECK(nibbles(1).bits == 2);  // R13
}

TEST_CASE("a variable of static rank converts to a view of dynamic rank, which references its extents") {
    numbers n;
    std::int64_t const transposed[] = {1, 2};
    auto const columns = as<std::int32_t, 2>(tensor_view{n.data, two_by_three, transposed});
    CHECK(sum_of(columns) == 15);
    ferry::typed_view<std::int32_t const> const open = columns;
    CHECK(open.shape().data() == columns.shape().data());
    CHECK(open(1, 2) == 5);
    CHECK(open.stride(1) == 2);
    auto const line = as<std::int32_t, 2, access_from::host, layout::contiguous>(tensor_view{n.data, two_by_three});
    CHECK(sum_of(line) == 15);
    ferry::typed_view<std::int32_t> const flat = line;
    CHECK(flat(1, 0) == 3);
    CHECK(flat.stride(0) == 3);
    tensor_view const v{n.data, two_by_three};
    CHECK(sum_of(as<std::int32_t>(v)) == 15);  // its extents are those of the tensor
}

TEST_CASE("a contiguous view may have a dynamic rank") {
    numbers n;
    std::int64_t const compact[] = {3, 1}, gap[] = {4, 1};
    using line = ferry::typed_view<std::int32_t const, dynamic_rank, access_from::host, layout::contiguous>;
    tensor_view const v{n.data, two_by_three, compact};
    line const open = as<std::int32_t, dynamic_rank, access_from::host, layout::contiguous>(v);
    CHECK(open(1, 1) == 4);
    CHECK(open.stride(0) == 3);
    CHECK(open.span().size() == 6);
    auto const fixed = as<std::int32_t, 2, access_from::host, layout::contiguous>(v);
    line const same = fixed;
    CHECK(same.at(1, 2) == 5);
    CHECK(sum_of(same) == 15);
    CHECK(line{}.span().empty());
    tensor_view const rows{n.data, two_by_three, gap};
    fails(errc::strides,
          [&] { static_cast<void>(as<std::int32_t, dynamic_rank, access_from::host, layout::contiguous>(rows)); });
}

TEST_CASE("D17: try_as returns the view that as returns, or the error that as throws") {
    numbers n;
    tensor_view const v{n.data, two_by_three};
    auto const typed = ferry::try_as<std::int32_t, 2, access_from::host, layout::contiguous>(v);
    REQUIRE(typed.has_value());
    CHECK((*typed)(1, 2) == 5);
    CHECK(ferry::try_as<std::int32_t const>(v.as_read_only())->rank() == 2);
    both_fail(errc::dtype, [&] { static_cast<void>(as<float>(v)); }, [&] { return ferry::try_as<float>(v); },
              {"ferry::as", "dtype is int32"});
    both_fail(errc::rank, [&] { static_cast<void>(as<std::int32_t, 3>(v)); },
              [&] { return ferry::try_as<std::int32_t, 3>(v); });
    both_fail(errc::read_only, [&] { static_cast<void>(as<std::int32_t>(v.as_read_only())); },
              [&] { return ferry::try_as<std::int32_t>(v.as_read_only()); });
    CHECK(ferry::try_as<float>(v).error().where().line() == __LINE__);
}

TEST_CASE("D17: try_at returns the value of an element, or the error that at throws") {
    numbers n;
    auto const v = as<std::int32_t, 2>(tensor_view{n.data, two_by_three});
    auto const any = as<std::int32_t>(tensor_view{n.data, two_by_three});
    std::int64_t const index[] = {1, 2}, beyond[] = {1, 3};
    CHECK(*v.try_at(1, 2) == 5);
    CHECK(*any.try_at(1, 2) == 5);
    CHECK(*any.try_at(index) == 5);
    CHECK(*as<std::int32_t const, 0>(tensor_view{n.data + 7, {}}).try_at() == 7);
    both_fail(errc::out_of_range, [&] { static_cast<void>(v.at(2, 0)); }, [&] { return v.try_at(2, 0); }, {"index 2"});
    both_fail(errc::out_of_range, [&] { static_cast<void>(any.at(beyond)); }, [&] { return any.try_at(beyond); });
    both_fail(errc::rank, [&] { static_cast<void>(any.at(1)); }, [&] { return any.try_at(1); });
    both_fail(errc::rank, [&] { static_cast<void>(any.at()); }, [&] { return any.try_at(); });
}

TEST_CASE("indices in braces may have any integer types, and each its own") {
    float values[] = {0, 1, 2, 3, 4, 5};
    std::int64_t const extents[] = {2, 3};
    auto const fixed = as<float, 2>(tensor_view{values, extents});
    auto const open = as<float>(tensor_view{values, extents});
    std::size_t const i = 1, j = 2;
    auto const checks = [&](auto const& v) {
        CHECK(v[{i, j}] == 5);
        CHECK(v.at({i, j}) == 5);
        CHECK(*v.try_at({i, j}) == 5);
        CHECK(v[{0, j}] == 2);
        CHECK(v.at({short{1}, std::uint8_t{1}}) == 4);
        CHECK(*v.try_at({1u, std::uint64_t{0}}) == 3);
        CHECK(v.try_at({i, ~std::size_t{0}}).error().code() == errc::out_of_range);
        CHECK(v.try_at({i}).error().code() == errc::rank);
    };
    checks(fixed);
    checks(open);
}

TEST_CASE("indices in braces: one index, and none, with static and with dynamic rank") {
    float values[] = {4, 5, 6};
    std::int64_t const three[] = {3};
    auto const open = as<float>(tensor_view{values, three}), scalar = as<float>(tensor_view{values, ferry::shape_view{}});
    auto const fixed = as<float, 1>(tensor_view{values, three});
    auto const one = as<float, 0>(tensor_view{values, ferry::shape_view{}});
    CHECK(open[{1}] == 5);
    CHECK(open.at({1}) == 5);
    CHECK(*open.try_at({1}) == 5);
    CHECK(fixed[{1}] == 5);
    CHECK(fixed.at({1}) == 5);
    CHECK(scalar[{}] == 4);
    CHECK(scalar.at({}) == 4);
    CHECK(*scalar.try_at({}) == 4);
    CHECK(one[{}] == 4);
    CHECK(one.at({}) == 4);
    CHECK(*one.try_at({}) == 4);
    CHECK(scalar.at() == 4);
    CHECK(open.try_at({}).error().code() == errc::rank);
    CHECK(open.try_at().error().where().line() == __LINE__);
}
