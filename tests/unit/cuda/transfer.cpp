// Conversion of a plan to copies of the CUDA runtime; memcpy performs the copies here.
#if __has_include(<cuda_runtime_api.h>)
#include <ferry/cuda/detail/copies/transfer.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

namespace {

using ferry::copy_plan;
using ferry::tensor_view;
using list = std::vector<std::int64_t>;
namespace detail = ferry::cuda::detail;

copy_plan plan_of(list const& shape, list const& dst, list const& src) {
    static float nothing = 0;  // a plan does not read the data
    return ferry::make_copy_plan(tensor_view{&nothing, shape, dst},
                                 tensor_view{static_cast<float const*>(&nothing), shape, src});
}

int loops(copy_plan const& p) { return detail::loops_per_copy(p, p.unit); }

/// Every unit of a nest separately.
void carry_out(ferry::loop_nest const& p, std::int64_t unit, std::byte* dst, std::byte const* src, int level = 0) {
    if (level == 0) {
        dst += p.dst_offset;
        src += p.src_offset;
    }
    if (level == p.rank) {
        std::memcpy(dst, src, static_cast<std::size_t>(unit));
        return;
    }
    for (std::int64_t i = 0; i < p.extents[level]; ++i)
        carry_out(p, unit, dst + i * p.dst_strides[level], src + i * p.src_strides[level], level + 1);
}

}  // namespace

TEST_CASE("cuda: the bytes that a plan touches") {
    auto const p = plan_of({3, 4}, {4, 1}, {-10, 1});
    auto const from = detail::reach(p, p.src_offset, p.src_strides, p.unit),
               to = detail::reach(p, p.dst_offset, p.dst_strides, p.unit);
    CHECK(to.begin == 0);
    CHECK(to.size == 48);
    CHECK(from.begin == -80);
    CHECK(from.size == 96);
    copy_plan bits;
    bits.kind = ferry::copy_kind::bits;
    bits.rank = 1;
    bits.unit = 4;
    bits.extents[0] = 5;
    bits.src_strides[0] = -12;
    bits.src_offset = 4;
    auto const b = detail::reach(bits, bits.src_offset, bits.src_strides, bits.unit);
    CHECK(b.begin == -6);  // bit -44 is in byte -6
    CHECK(b.size == 7);    // and bit 7 in byte 0
}

TEST_CASE("cuda: a copy covers two loops with even strides, one with positive row strides, else none") {
    CHECK(loops(plan_of({4, 5, 6}, {30, 6, 1}, {200, 10, 1})) == 2);
    CHECK(loops(plan_of({4, 5, 6}, {30, 6, 1}, {201, 10, 1})) == 1);
    CHECK(loops(plan_of({4, 5, 6}, {30, 6, 1}, {20, 10, 1})) == 1);  // slices that overlap
    CHECK(loops(plan_of({5, 6}, {6, 1}, {10, 1})) == 1);
    CHECK(loops(plan_of({5, 6}, {6, 1}, {-10, 1})) == 0);
    CHECK(loops(plan_of({5, 6}, {6, 1}, {0, 1})) == 0);
    CHECK(loops(plan_of({5, 6}, {6, 1}, {std::int64_t{1} << 30, 1})) == 0);  // 4 GiB apart: more than a pitch
    CHECK(loops(plan_of({30}, {1}, {1})) == 0);
    auto const four = plan_of({3, 4, 5, 6}, {2000, 200, 10, 1}, {2000, 200, 10, 1});
    CHECK(detail::count_copies(four, four.unit) == 3 * (loops(four) == 1 ? 4 : 1));
}

TEST_CASE("cuda: many small copies go through the host, few or large ones do not") {
    CHECK(detail::is_worth_queueing(plan_of({1000, 1000}, {1000, 1}, {2000, 1})));
    CHECK(detail::is_worth_queueing(plan_of({10, 10}, {10, 1}, {-20, 1})));
    CHECK(!detail::is_worth_queueing(plan_of({1000}, {1}, {-1})));
    CHECK(!detail::is_worth_queueing(plan_of({100, 100}, {100, 1}, {1, 100})));
    copy_plan bits;
    bits.kind = ferry::copy_kind::bits;
    CHECK(!detail::is_worth_queueing(bits));
}

TEST_CASE("cuda: gathering forwards, copying and scattering equals the direct copy") {
    std::vector<float> source(4000);
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
    struct row {
        list shape, dst, src;
        std::int64_t src_first;
    };
    for (auto const& r : {row{{10, 20}, {20, 1}, {1, 10}, 0}, row{{10, 20}, {50, 2}, {-20, -1}, 3000},
                          row{{4, 5, 6}, {100, 15, 2}, {-300, 7, -40}, 2000}, row{{6, 7}, {7, 1}, {0, -3}, 100},
                          row{{6, 7}, {9, 1}, {0, 0}, 5}, row{{30, 8}, {8, 1}, {1, 1}, 0}}) {
        auto const plan = plan_of(r.shape, r.dst, r.src);
        std::vector<float> expected(1000, -1), got = expected;
        auto const* const first = reinterpret_cast<std::byte const*>(source.data() + r.src_first);
        ferry::copy_on_host(plan, expected.data(), first);
        auto near = plan;
        auto const forward = detail::gather_source(near);
        std::int64_t bytes = plan.unit;
        for (int i = 0; i < forward.rank; ++i) bytes *= forward.extents[i];
        auto const result = detail::compact_destination(near);
        std::vector<std::byte> gathered(static_cast<std::size_t>(bytes)), copied(static_cast<std::size_t>(result));
        carry_out(forward, plan.unit, gathered.data(), first);
        ferry::copy_on_host(near, copied.data(), gathered.data());
        ferry::loop_nest scatter = plan;
        scatter.src_offset = 0;
        for (int i = 0; i < plan.rank; ++i) scatter.src_strides[i] = near.dst_strides[i];
        carry_out(scatter, plan.unit, reinterpret_cast<std::byte*>(got.data()), copied.data());
        CHECK(got == expected);
    }
}
#endif
