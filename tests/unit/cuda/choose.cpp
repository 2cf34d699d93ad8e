// The method of a CUDA copy: a table, tested without a device. Needs the headers of the CUDA Toolkit.
#if __has_include(<cuda_runtime_api.h>)
#include <ferry/cuda/choose.hpp>
#include <ferry/cuda/detail/copies/strided.hpp>
#include <ferry/space/host_copy.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

namespace {

using ferry::copy_plan;
using ferry::device_type;
using ferry::cuda::copy_facts;
using ferry::cuda::copy_method;

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr ferry::device gpu{device_type::cuda, 0}, other{device_type::cuda, 1}, pinned{device_type::cuda_host},
    managed{device_type::cuda_managed};

copy_facts between(ferry::device to, ferry::device from, bool pack = false, bool fresh = false) {
    copy_facts f{};
    f.to = to;
    f.from = from;
    f.can_pack = pack;
    f.is_fresh = fresh;
    return f;
}

struct both {
    copy_plan plan;
    copy_facts facts;
};

/// The copy of a rows × columns matrix of floats, stored column by column in the source.
both transposed(ferry::device to, ferry::device from, std::int64_t rows, std::int64_t columns, bool pack) {
    std::int64_t const shape[] = {rows, columns}, strides[] = {1, rows};
    static float anything;
    auto const plan = ferry::make_copy_plan(ferry::tensor_view{&anything, shape, {}, to},
                                            ferry::tensor_view{&anything, shape, strides, from});
    auto f = between(to, from, pack);
    f.dense_dst = ferry::cuda::detail::is_dense(plan, plan.dst_offset, plan.dst_strides, plan.unit);
    f.dense_src = ferry::cuda::detail::is_dense_source(plan);
    return {plan, f};
}

/// Rows of `width` floats out of a source whose rows are `pitch` floats apart.
both cropped(ferry::device to, ferry::device from, std::int64_t rows, std::int64_t width, std::int64_t pitch,
             bool pack) {
    std::int64_t const shape[] = {rows, width}, strides[] = {pitch, 1};
    static float anything;
    auto const plan = ferry::make_copy_plan(ferry::tensor_view{&anything, shape, {}, to},
                                            ferry::tensor_view{&anything, shape, strides, from});
    auto f = between(to, from, pack);
    f.dense_dst = ferry::cuda::detail::is_dense(plan, plan.dst_offset, plan.dst_strides, plan.unit);
    f.dense_src = ferry::cuda::detail::is_dense_source(plan);
    return {plan, f};
}

}  // namespace

TEST_CASE("a block that involves no pageable memory is one copy on the stream, whatever its size") {
    for (auto const size : {std::size_t{1}, mib, 4096 * mib})
        for (auto const to : {gpu, pinned, managed})
            for (auto const from : {gpu, other, pinned, managed})
                CHECK(choose_bytes(size, between(to, from)) == copy_method::plain);
}

TEST_CASE("pageable memory is copied by lanes from the size at which they are faster") {
    CHECK(choose_bytes(0, between(ferry::cpu, gpu)) == copy_method::nothing);
    for (auto const size : {mib / 2, mib, 3 * mib, 256 * mib})
        for (bool const fresh : {false, true})
            for (auto const far : {gpu, managed}) {
                CHECK(choose_bytes(size, between(ferry::cpu, far, false, fresh)) == copy_method::staged);
                CHECK(choose_bytes(size, between(far, ferry::cpu)) == copy_method::staged);
                CHECK(choose_bytes(size, between(ferry::cpu, pinned)) == copy_method::plain);
            }
}

TEST_CASE("only small copies from a device to pageable memory use one bounce buffer") {
    for (auto const size : {std::size_t{1}, std::size_t{4096}, mib / 2 - 1})
        for (bool const fresh : {false, true}) {
            CHECK(choose_bytes(size, between(ferry::cpu, gpu, false, fresh)) == copy_method::bounced);
            CHECK(choose_bytes(size, between(ferry::cpu, managed, false, fresh)) == copy_method::bounced);
            CHECK(choose_bytes(size, between(gpu, ferry::cpu)) == copy_method::plain);
            CHECK(choose_bytes(size, between(ferry::cpu, pinned)) == copy_method::plain);
        }
}

TEST_CASE("a staged transfer has no more lanes than the copier, and whole pieces in each chunk") {
    for (std::size_t bytes = mib / 2; bytes <= 2048 * mib; bytes = bytes * 3 / 2 + 1)
        for (int lanes = 1; lanes <= 16; lanes *= 2)
            for (bool const fresh : {false, true})
                for (bool const up : {false, true}) {
                    auto f = up ? between(gpu, ferry::cpu) : between(ferry::cpu, gpu, false, fresh);
                    f.lanes = lanes;
                    auto const cut = choose_staging(bytes, f);
                    CHECK(cut.lanes >= 1);
                    CHECK(cut.lanes <= lanes);
                    CHECK(cut.chunk % cut.piece == 0);
                    CHECK(cut.chunk <= 4 * mib);
                }
}

TEST_CASE("new pages get cached stores and all lanes, populated ones non-temporal stores") {
    CHECK(choose_staging(1024 * mib, between(ferry::cpu, gpu)).non_temporal);
    CHECK(!choose_staging(1024 * mib, between(ferry::cpu, gpu, false, true)).non_temporal);
    CHECK(choose_staging(mib, between(gpu, ferry::cpu)).non_temporal);
    CHECK(!choose_staging(1024 * mib, between(gpu, ferry::cpu)).non_temporal);  // slots stay in the cache
    for (bool const fresh : {false, true}) {
        auto many = between(ferry::cpu, gpu, false, fresh);
        many.lanes = 16;
        CHECK(choose_staging(1024 * mib, many).lanes == (fresh ? 16 : 8));
        CHECK(choose_staging(1024 * mib, many).caller_copies == !fresh);
        CHECK(choose_staging(mib, many).caller_copies);
    }
}

TEST_CASE("a transposed tensor is packed by the device where it has kernels, else by the host") {
    for (auto const to : {ferry::cpu, pinned}) {
        auto const with = transposed(to, gpu, 4096, 4096, true), without = transposed(to, gpu, 4096, 4096, false);
        CHECK(with.facts.dense_dst);
        CHECK(with.facts.dense_src);
        CHECK(choose(with.plan, with.facts) == copy_method::packed);
        CHECK(choose(without.plan, without.facts) == copy_method::by_host);
        auto const up = transposed(gpu, to, 4096, 4096, true);
        CHECK(choose(up.plan, up.facts) == copy_method::unpacked);
    }
    auto const within = transposed(gpu, gpu, 4096, 4096, true);
    CHECK(choose(within.plan, within.facts) == copy_method::kernel);
    auto beyond = transposed(gpu, other, 4096, 4096, true);
    beyond.facts.is_here = false;
    CHECK(choose(beyond.plan, beyond.facts) == copy_method::kernel);
    beyond.facts.can_pack = false;  // or they do not reach each other
    CHECK(choose(beyond.plan, beyond.facts) == copy_method::by_host);
}

TEST_CASE("wide rows are one pitched copy; narrow rows are packed first") {
    auto const wide = cropped(pinned, gpu, 1000, 1024, 2048, true);
    CHECK(choose(wide.plan, wide.facts) == copy_method::pitched);
    auto const narrow = cropped(pinned, gpu, 100'000, 1, 1024, true);
    CHECK(choose(narrow.plan, narrow.facts) == copy_method::packed);
    auto const no_kernel = cropped(pinned, gpu, 100'000, 1, 1024, false);
    CHECK(choose(no_kernel.plan, no_kernel.facts) == copy_method::packed);
    auto const large = cropped(ferry::cpu, gpu, 10'000, 1024, 2048, false);
    CHECK(choose(large.plan, large.facts) == copy_method::packed);
    auto const elsewhere = [&] {
        auto f = no_kernel.facts;
        f.is_here = false;
        return choose(no_kernel.plan, f);
    }();
    CHECK(elsewhere == copy_method::pitched);
}

TEST_CASE("copies within the host are the host's, and empty plans need no method") {
    CHECK(choose(copy_plan{}, between(gpu, gpu)) == copy_method::nothing);
    auto const host = transposed(ferry::cpu, ferry::cpu, 8, 8, false),
               half = transposed(pinned, ferry::cpu, 8, 8, true);
    CHECK(choose(host.plan, host.facts) == copy_method::host);
    CHECK(choose(half.plan, half.facts) == copy_method::by_host);
}

TEST_CASE("scattered wide pieces without kernels are one batch") {
    std::int64_t const shape[] = {1000, 4096}, backwards[] = {-8192, 1};
    static std::uint8_t anything;
    auto const plan = ferry::make_copy_plan(ferry::tensor_view{&anything, shape, {}, pinned},
                                            ferry::tensor_view{&anything, shape, backwards, gpu});
    CHECK(choose(plan, between(pinned, gpu)) == copy_method::batch);
}

TEST_CASE("density: every byte, each once") {
    using namespace ferry::cuda::detail;
    auto const whole = transposed(ferry::cpu, gpu, 5, 7, false).plan, holes = cropped(gpu, gpu, 5, 7, 9, false).plan;
    CHECK(is_dense(whole, whole.dst_offset, whole.dst_strides, whole.unit));
    CHECK(is_dense_source(whole));
    CHECK(is_dense(holes, holes.dst_offset, holes.dst_strides, holes.unit));
    CHECK(!is_dense_source(holes));
    std::int64_t const shape[] = {4, 6}, repeated[] = {0, 1}, overlapping[] = {3, 1};
    static float f;
    for (auto const* strides : {repeated, overlapping}) {
        auto const plan = ferry::make_copy_plan(ferry::tensor_view{&f, shape},
                                                ferry::tensor_view{&f, shape, ferry::strides_view{strides, 2}});
        CHECK(!is_dense_source(plan));
    }
}

TEST_CASE("slabs of a dense side are dense, no larger than they may be, and together the whole") {
    using namespace ferry::cuda::detail;
    static float f;
    struct {
        std::vector<std::int64_t> shape, strides;
        std::int64_t most, count;
    } const all[] = {
        {{6, 5, 4}, {1, 24, 6}, 2 * 20 * 4, 3},
        {{6, 5, 4}, {1, 24, 6}, 2 * 4 * 4, 6 * 3},  // one of the first, two of five of the second
        {{6, 5, 4}, {1, 24, 6}, 4, 6 * 5 * 4},      // an element each
        {{6, 5, 4}, {1, 24, 6}, 1, 6 * 5 * 4},      // which is the least
        {{3, 1000}, {1, 3}, 400, 3 * 10},           // channels of an image apart
        {{1000, 3}, {1, 1000}, 400, 31},
        {{2, 3, 2, 3, 2}, {1, 2, 6, 12, 36}, 4 * 6, 2 * 3 * 2},
    };
    for (auto const& one : all)
        for (bool const of_destination : {true, false}) {
            CAPTURE(one.most);
            CAPTURE(of_destination);
            ferry::tensor_view const dense{&f, one.shape}, turned{&f, one.shape, ferry::strides_view{one.strides}};
            auto const plan =
                of_destination ? ferry::make_copy_plan(dense, turned) : ferry::make_copy_plan(turned, dense);
            slabs const cut{plan, one.most, of_destination};
            CHECK(cut.count() == one.count);
            std::int64_t end = 0;
            for (std::int64_t i = 0; i < cut.count(); ++i) {
                auto const part = cut.part(i);
                auto const* const strides = of_destination ? part.dst_strides : part.src_strides;
                auto const offset = of_destination ? part.dst_offset : part.src_offset;
                CHECK(is_dense(part, offset, strides, part.unit));
                CHECK(cut.begin(i) == end);
                CHECK(cut.size(i) == static_cast<std::size_t>(part.total_bytes));
                CHECK(cut.size(i) <= static_cast<std::size_t>(std::max(one.most, std::int64_t{4})));
                CHECK(cut.size(i) <= cut.size(0));  // a buffer for the first one holds them all
                end += part.total_bytes;
                auto const there = of_destination ? with_dst_at_0(part) : with_src_at_0(part);
                CHECK((of_destination ? reach(there, there.dst_offset, there.dst_strides, there.unit)
                                      : reach(there, there.src_offset, there.src_strides, there.unit))
                          .begin == 0);
                // The other side: each of its elements is in one part.
                auto const far = of_destination ? reach(part, part.src_offset, part.src_strides, part.unit)
                                                : reach(part, part.dst_offset, part.dst_strides, part.unit);
                CHECK(far.begin >= 0);
                CHECK(far.begin + far.size <= plan.total_bytes);
            }
            CHECK(end == plan.total_bytes);
        }
}

TEST_CASE("slabs of a large plan stay small whatever its loops are") {
    using namespace ferry::cuda::detail;
    constexpr std::int64_t mib = 1 << 20;
    std::int64_t const shape[] = {2, std::int64_t{1} << 32}, strides[] = {1, 2};
    auto* const p = reinterpret_cast<float*>(std::uintptr_t{4096});
    auto const plan = ferry::make_copy_plan(ferry::tensor_view{p, shape},
                                            ferry::tensor_view{p, shape, ferry::strides_view{strides, 2}});
    slabs const cut{plan, 64 * mib, true};
    CHECK(cut.count() == 2 * 256);
    CHECK(cut.size(0) == 64 * mib);
    CHECK(cut.begin(cut.count() - 1) + 64 * mib == plan.total_bytes);
}

TEST_CASE("copying the units of all slabs copies the plan") {
    using namespace ferry::cuda::detail;
    std::vector<std::int64_t> const shape{5, 7, 3}, strides{1, 5, 35};
    std::vector<float> source(105), whole(105), parts(105);
    std::iota(source.begin(), source.end(), 1.0F);
    auto const plan = ferry::make_copy_plan(ferry::tensor_view{whole.data(), shape},
                                            ferry::tensor_view{source.data(), shape, ferry::strides_view{strides}});
    ferry::copy_on_host(plan, whole.data(), source.data());
    for (std::int64_t const most : {4, 8, 12, 20, 40, 60, 1000}) {
        std::fill(parts.begin(), parts.end(), 0.0F);
        slabs const cut{plan, most, true};
        for (std::int64_t i = 0; i < cut.count(); ++i) {
            std::vector<float> piece(cut.size(i) / 4);
            ferry::copy_on_host(with_dst_at_0(cut.part(i)), piece.data(), source.data());
            std::memcpy(reinterpret_cast<std::byte*>(parts.data()) + cut.begin(i), piece.data(), cut.size(i));
        }
        CHECK(parts == whole);
    }
}

TEST_CASE("a plan in slabs: each begins where the one before ends, on the side that is dense") {
    using namespace ferry::cuda::detail;
    for (bool const of_destination : {true, false}) {
        auto const plan = transposed(gpu, gpu, 100, 70, true).plan;
        slabs const cut{plan, 4096, of_destination};
        CHECK(cut.count() > 5);
        std::int64_t end = 0, bytes = 0;
        for (std::int64_t i = 0; i < cut.count(); ++i) {
            CHECK(cut.begin(i) == end);
            CHECK(cut.size(i) <= 4096);
            CHECK(cut.size(i) <= cut.size(0));  // a buffer for the first one holds them all
            end += static_cast<std::int64_t>(cut.size(i));
            bytes += cut.part(i).total_bytes;
        }
        CHECK(end == 100 * 70 * 4);
        CHECK(bytes == end);
    }
}
#endif
