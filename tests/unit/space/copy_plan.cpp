// Plans as data: which layouts give which plan.
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/host_copy.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace {

using ferry::copy_kind;
using list = std::vector<std::int64_t>;
constexpr ferry::data_type u8{ferry::type_code::uint, 8}, f32{ferry::type_code::float_, 32},
    u4{ferry::type_code::uint, 4}, u6x3{ferry::type_code::uint, 6, 3}, f64x8{ferry::type_code::float_, 64, 8};

struct side {
    list strides;  // in elements; empty: compact
    bool padded = false;
};

struct expected_loop {
    std::int64_t extent, dst_stride, src_stride;
};

struct expected {
    copy_kind kind = copy_kind::empty;
    std::int64_t unit = 0;
    std::int64_t dst_offset = 0, src_offset = 0;
    std::initializer_list<expected_loop> loops = {};
    std::int32_t zero_bits = 0;
};

ferry::copy_plan plan_of(ferry::data_type type, list const& shape, side const& dst, side const& src) {
    static std::byte memory[64];
    auto const view = [&](side const& s) {
        return ferry::tensor_view{memory,     type,
                                  shape,      s.strides.empty() ? ferry::strides_view{} : s.strides,
                                  ferry::cpu, s.padded ? ferry::flags::subbyte_padded : ferry::flags::none};
    };
    return ferry::make_copy_plan(view(dst), view(src));
}

void check(ferry::copy_plan const& plan, expected const& e) {
    CHECK(plan.kind == e.kind);
    CHECK(plan.unit == e.unit);
    CHECK(plan.dst_offset == e.dst_offset);
    CHECK(plan.src_offset == e.src_offset);
    CHECK(plan.zero_bits == e.zero_bits);
    REQUIRE(plan.rank == static_cast<int>(e.loops.size()));
    int i = 0;
    for (auto const& loop : e.loops) {
        CAPTURE(i);
        CHECK(plan.extents[i] == loop.extent);
        CHECK(plan.dst_strides[i] == loop.dst_stride);
        CHECK(plan.src_strides[i] == loop.src_stride);
        ++i;
    }
}

}  // namespace

TEST_CASE("contiguous tensors of the same layout are one memcpy, at any rank") {
    check(plan_of(f32, {2, 3, 4}, {}, {}), {copy_kind::contiguous, 96});
    check(plan_of(f32, {2, 3, 4}, {{12, 4, 1}}, {}), {copy_kind::contiguous, 96});
    check(plan_of(f32, {}, {}, {}), {copy_kind::contiguous, 4});
    check(plan_of(f32, {1, 1}, {}, {}), {copy_kind::contiguous, 4});
    check(plan_of(f64x8, {2}, {}, {}), {copy_kind::contiguous, 128});
    CHECK(plan_of(f32, {2, 3, 4}, {}, {}).total_bytes == 96);
}

TEST_CASE("dense tensors of the same permutation are one memcpy") {
    check(plan_of(f32, {2, 3, 4}, {{1, 2, 6}}, {{1, 2, 6}}), {copy_kind::contiguous, 96});
    check(plan_of(f32, {2, 3, 4}, {{4, 8, 1}}, {{4, 8, 1}}), {copy_kind::contiguous, 96});
}

TEST_CASE("R28: tensors with the same negative strides are one memcpy from the lowest address") {
    check(plan_of(f32, {3}, {{-1}}, {{-1}}), {copy_kind::contiguous, 12, -8, -8});
    check(plan_of(f32, {2, 3}, {{-3, 1}}, {{-3, 1}}), {copy_kind::contiguous, 24, -12, -12});
}

TEST_CASE("R26: the plan of an empty tensor is empty, for any strides") {
    check(plan_of(f32, {2, 0, 3}, {}, {}), {});
    check(plan_of(f32, {0, 3}, {{0, 0}}, {{-7, 2}}), {});
    check(plan_of(u4, {0}, {}, {}), {});
}

TEST_CASE("R27: strides of dimensions of extent 1 are ignored") {
    check(plan_of(f32, {1, 4}, {{-99, 1}}, {{0, 1}}), {copy_kind::contiguous, 16});
    check(plan_of(f32, {4, 1}, {{1, 77}}, {{1, 0}}), {copy_kind::contiguous, 16});
}

TEST_CASE("a sub-matrix is a plan of rows") {
    check(plan_of(f32, {3, 4}, {}, {{10, 1}}), {copy_kind::rows, 16, 0, 0, {{3, 16, 40}}});
    check(plan_of(f32, {3, 4}, {{10, 1}}, {{20, 1}}), {copy_kind::rows, 16, 0, 0, {{3, 40, 80}}});
    check(plan_of(f32, {2, 3, 4}, {}, {{60, 10, 1}}), {copy_kind::rows, 16, 0, 0, {{2, 48, 240}, {3, 16, 40}}});
}

TEST_CASE("dimensions that are contiguous in both layouts are merged") {
    check(plan_of(f32, {2, 3, 4}, {}, {{30, 10, 1}}), {copy_kind::rows, 16, 0, 0, {{6, 16, 40}}});
    check(plan_of(f32, {2, 3, 4}, {}, {{24, 8, 2}}), {copy_kind::gather, 4, 0, 0, {{24, 4, 8}}});
}

TEST_CASE("long elements with gaps are a plan of rows") {
    check(plan_of(f64x8, {5}, {}, {{3}}), {copy_kind::rows, 64, 0, 0, {{5, 64, 192}}});
}

TEST_CASE("R28: a reversed source is a gather with a negative stride") {
    check(plan_of(f32, {5}, {}, {{-1}}), {copy_kind::gather, 4, 0, 0, {{5, 4, -4}}});
    check(plan_of(f32, {5}, {{-1}}, {}), {copy_kind::gather, 4, -16, 16, {{5, 4, -4}}});
    check(plan_of(f32, {2, 5}, {}, {{-5, -1}}), {copy_kind::gather, 4, 0, 0, {{10, 4, -4}}});
}

TEST_CASE("R29: a repeated source has stride 0") {
    check(plan_of(f32, {5}, {}, {{0}}), {copy_kind::gather, 4, 0, 0, {{5, 4, 0}}});
    check(plan_of(f32, {2, 3, 5}, {}, {{0, 0, 0}}), {copy_kind::gather, 4, 0, 0, {{30, 4, 0}}});
    check(plan_of(f32, {3, 5}, {}, {{0, 1}}), {copy_kind::rows, 20, 0, 0, {{3, 20, 0}}});
    check(plan_of(f32, {3, 5}, {}, {{1, 0}}), {copy_kind::gather, 4, 0, 0, {{3, 20, 4}, {5, 4, 0}}});
}

TEST_CASE("a transpose has the destination's fastest dimension last and the source's before it") {
    check(plan_of(f32, {3, 5}, {}, {{1, 3}}), {copy_kind::transpose, 4, 0, 0, {{3, 20, 4}, {5, 4, 12}}});
    // The outermost dimension of the destination is the source's fastest.
    check(plan_of(f32, {2, 3, 5}, {}, {{1, 12, 2}}),
          {copy_kind::transpose, 4, 0, 0, {{3, 20, 48}, {2, 60, 4}, {5, 4, 8}}});
    // Planes to pixels: the rows of a plane are one dimension.
    check(plan_of(u8, {8, 6, 3}, {}, {{6, 1, 48}}), {copy_kind::transpose, 1, 0, 0, {{48, 3, 1}, {3, 1, 48}}});
}

TEST_CASE("adjacent pairs are transposed as units") {
    check(plan_of(f32, {3, 5, 2}, {}, {{2, 6, 1}}), {copy_kind::transpose, 8, 0, 0, {{3, 40, 8}, {5, 8, 24}}});
}

TEST_CASE("units of a cache line are rows, in any sequence") {
    check(plan_of(f64x8, {3, 5}, {}, {{1, 3}}), {copy_kind::rows, 64, 0, 0, {{3, 320, 64}, {5, 64, 192}}});
}

TEST_CASE("dimensions are sorted by destination stride") {
    check(plan_of(f32, {3, 5}, {{1, 3}}, {}), {copy_kind::transpose, 4, 0, 0, {{5, 12, 4}, {3, 4, 20}}});
}

TEST_CASE("R19: runs of packed elements that fill whole bytes are copied as bytes") {
    check(plan_of(u4, {6}, {}, {}), {copy_kind::contiguous, 3});
    check(plan_of(u4, {3, 4}, {}, {{6, 1}}), {copy_kind::rows, 2, 0, 0, {{3, 2, 3}}});
    check(plan_of(u4, {4, 2}, {{-2, 1}}, {}), {copy_kind::rows, 1, -3, 3, {{4, 1, -1}}});
    CHECK(plan_of(u4, {6}, {}, {}).total_bytes == 3);
}

TEST_CASE("R19: packed elements that do not fill whole bytes are copied as bits") {
    check(plan_of(u4, {5}, {}, {}), {copy_kind::bits, 20});
    check(plan_of(u4, {3, 5}, {}, {}), {copy_kind::bits, 60});
    check(plan_of(u4, {4}, {}, {{2}}), {copy_kind::bits, 4, 0, 0, {{4, 4, 8}}});
    check(plan_of(u4, {3}, {{-1}}, {}), {copy_kind::bits, 4, -8, 8, {{3, 4, -4}}});
    check(plan_of(u6x3, {2}, {}, {}), {copy_kind::bits, 36});
    CHECK(plan_of(u4, {5}, {}, {}).total_bytes == 3);
    CHECK(plan_of(u4, {5}, {}, {}).counts_bits());
}

TEST_CASE("R13: copies between padded tensors are copies of bytes") {
    check(plan_of(u4, {5}, {{}, true}, {{}, true}), {copy_kind::contiguous, 5});
    check(plan_of(u6x3, {2}, {{}, true}, {{}, true}), {copy_kind::contiguous, 6});
}

TEST_CASE("R13: a plan between packed and padded tensors packs, or unpacks and clears the padding") {
    check(plan_of(u4, {6}, {}, {{}, true}), {copy_kind::bits, 4, 0, 0, {{6, 4, 8}}});
    check(plan_of(u4, {6}, {{}, true}, {}), {copy_kind::bits, 4, 0, 0, {{6, 8, 4}}, 4});
    check(plan_of(u6x3, {2}, {{}, true}, {}), {copy_kind::bits, 18, 0, 0, {{2, 24, 18}}, 6});
    CHECK(plan_of(u4, {6}, {{}, true}, {}).total_bytes == 6);
}

TEST_CASE("R13: the padded flag has no effect on types of whole bytes") {
    check(plan_of(f32, {6}, {{}, true}, {}), {copy_kind::contiguous, 24});
    check(plan_of(ferry::data_type{ferry::type_code::float4_e2m1fn, 4, 2}, {6}, {{}, true}, {}),
          {copy_kind::contiguous, 6});
}

TEST_CASE("R32: max_rank suffices for every shape whose size fits") {
    list const shape(62, 2);
    list dst(62), src(62);
    for (std::size_t i = 0; i < 62; ++i) {
        dst[i] = std::int64_t{1} << (61 - i);
        src[i] = std::int64_t{1} << i;
    }
    auto const plan = plan_of(u8, shape, {dst}, {src});
    CHECK(plan.kind == copy_kind::transpose);
    CHECK(plan.rank == ferry::copy_plan::max_rank);
    CHECK(plan.total_bytes == std::int64_t{1} << 62);
}

TEST_CASE("plans compare by their initialised members") {
    CHECK(plan_of(f32, {3, 4}, {}, {{10, 1}}) == plan_of(f32, {1, 3, 4}, {}, {{5, 10, 1}}));
    CHECK_FALSE(plan_of(f32, {3, 4}, {}, {{10, 1}}) == plan_of(f32, {3, 4}, {}, {{11, 1}}));
}

TEST_CASE("a copy of a plan does the same") {
    std::uint16_t dst[6] = {}, src[6] = {1, 2, 3, 4, 5, 6};
    std::int64_t const rows[] = {2, 3}, columns[] = {1, 2};
    auto const plan = ferry::make_copy_plan({dst, rows}, {src, rows, columns});
    ferry::copy_plan copy = plan;
    CHECK(copy == plan);
    ferry::copy_on_host(copy, dst, src);
    CHECK(dst[1] == 3);
    CHECK(dst[3] == 2);
}

TEST_CASE("R19: the other bits of a partial last byte are preserved") {
    std::uint8_t dst[] = {0xff, 0xff, 0xff}, src[] = {0x21, 0x03, 0};
    std::int64_t const shape[] = {3};
    ferry::tensor_view const to{dst, u4, shape}, from{src, u4, shape};
    ferry::copy_on_host(ferry::make_copy_plan(to, from), dst, src);
    CHECK(dst[0] == 0x21);
    CHECK(dst[1] == 0xf3);
    CHECK(dst[2] == 0xff);
}

TEST_CASE("R26: executing an empty plan accesses no memory") {
    std::int64_t const shape[] = {0};
    ferry::tensor_view const nothing{static_cast<float*>(nullptr), shape};
    ferry::copy_on_host(ferry::make_copy_plan(nothing, nothing), nullptr, nullptr);
}

namespace {

// A plan is data at compile time as well, and can be handed to a device by value.
static_assert(std::is_trivially_copyable_v<ferry::copy_plan>);
static_assert(std::equality_comparable<ferry::copy_plan>);
static_assert(noexcept(ferry::copy_on_host(ferry::copy_plan{}, nullptr, nullptr)));

constexpr std::int64_t shape[] = {4, 6}, transposed[] = {1, 4}, reversed[] = {-6, -1};
constexpr float numbers[24] = {};
float target[24];
constexpr ferry::copy_plan turn = ferry::make_copy_plan({target, shape}, {numbers, shape, transposed});
static_assert(turn.kind == copy_kind::transpose && turn.rank == 2 && turn.unit == 4);
static_assert(turn.extents[0] == 4 && turn.dst_strides[0] == 24 && turn.src_strides[0] == 4);
static_assert(ferry::make_copy_plan({target, shape}, {numbers, shape}).kind == copy_kind::contiguous);
static_assert(ferry::make_copy_plan({target, shape}, {numbers, shape, reversed}).src_strides[0] == -4);
static_assert(ferry::make_copy_plan({target, shape, reversed}, {numbers, shape}).dst_offset == -23 * 4);
static_assert(ferry::copy_plan{}.kind == copy_kind::empty);

}  // namespace
