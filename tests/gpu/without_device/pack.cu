// The threads of the pack kernels, run in sequence on the host, without a device.
#include <ferry/cuda/detail/pack/job.hpp>
#include <ferry/cuda/detail/pack/kernels.cuh>
#include <ferry/space/host_copy.hpp>

#include <doctest/doctest.h>

#include <gpu/support/random_layout.hpp>
#include <gpu/support/random_pieces.hpp>

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

using namespace ferry::cuda::detail;

template <class Word, class Count, class Offset>
void gather_all(pack_job const& job) {
    auto const step = static_cast<Count>(job.blocks * pack_threads);
    for (Count first = 0; first < step; ++first) gather_words<Word, Count, Offset>(job.arguments, first, step);
}

template <class Word, bool Vector>
void all_tiles(pack_job const& job) {
    using tile = ferry::cuda::detail::tile<Word, Vector>;
    alignas(16) static Word shared[tile::edge * tile::pitch];
    for (std::uint32_t n = 0; n < job.arguments.count; ++n) {
        tile const here{job.arguments, n};
        for (int thread = 0; thread < pack_threads; ++thread) here.load(shared, thread);
        for (int thread = 0; thread < pack_threads; ++thread) here.store(shared, thread);
    }
}

template <class Word>
void run_words(pack_job const& job) {
    switch (job.kernel) {
        case pack_kernel::gather_32: return gather_all<Word, std::uint32_t, std::int32_t>(job);
        case pack_kernel::gather_mixed: return gather_all<Word, std::uint32_t, std::int64_t>(job);
        case pack_kernel::gather_64: return gather_all<Word, std::uint64_t, std::int64_t>(job);
        case pack_kernel::tiles_vector:
            if constexpr (sizeof(Word) <= 2) return all_tiles<Word, true>(job);
            FAIL("a word too large for vectors");
        default: return all_tiles<Word, false>(job);
    }
}

void run_job(pack_job const& job) {
    switch (job.word) {
        case 0: {
            auto const step = job.arguments.bytes == 0 ? 1 : std::uint64_t{job.blocks} * pack_threads;
            for (std::uint64_t first = 0; first < step; ++first) copy_bit_groups(job.arguments, first, step);
            return;
        }
        case 1: return run_words<std::uint8_t>(job);
        case 2: return run_words<std::uint16_t>(job);
        case 4: return run_words<std::uint32_t>(job);
        case 8: return run_words<std::uint64_t>(job);
        default: return run_words<word_16>(job);
    }
}

}  // namespace

TEST_CASE("R19, R26–R29, R31: the kernels' threads copy what the host copies, and write nothing else") {
    char const* const asked = std::getenv("FERRY_RANDOM_LAYOUTS");
    long const count = asked != nullptr ? std::atol(asked) : 3000;
    long seen[5 * 6 + 1] = {}, alone = 0;
    for (long seed = 0; seed < count; ++seed) {
        support::random_copy c{static_cast<std::uint64_t>(seed)};
        auto const plan = c.plan();
        if (plan.kind == ferry::copy_kind::empty) continue;
        auto expected = c.dst;
        ferry::copy_on_host(plan, expected.data() + c.dst_first, c.src.data() + c.src_first);
        pack_job job;
        make_pack_job(plan, c.dst.data() + c.dst_first, c.src.data() + c.src_first, job);
        if (job.kernel != pack_kernel::bits && c.random.chance(30))
            job.kernel = job.kernel >= pack_kernel::tiles ? pack_kernel::tiles
                         : c.random.chance(50)            ? pack_kernel::gather_mixed
                                                          : pack_kernel::gather_64;
        job.blocks = job.blocks < 4 ? job.blocks : static_cast<std::uint32_t>(1 + c.random.below(4));
        ++seen[static_cast<int>(job.kernel)];
        alone += job.kernel == pack_kernel::bits && job.arguments.bytes == 0;
        run_job(job);
        if (c.dst != expected)
            FAIL_CHECK("seed ", seed, ": ", c.text(), ", kernel ", static_cast<int>(job.kernel), ", word ", job.word);
    }
    for (int k = 0; k < 6; ++k) {
        CAPTURE(k);
        CHECK(seen[k] > count / 100);
    }
    MESSAGE("copied by one thread: ", alone);
}

TEST_CASE("bits that interleave in the destination without being nested are copied by one thread") {
    support::layout const to{{2, 3, 5}, {3 * 4, 2 * 4, 24 * 4}}, from = support::compact({2, 3, 5});
    ferry::data_type const four{ferry::type_code::uint, 4};
    std::vector<std::uint8_t> dst(512, 0xa5), src(64);
    support::layouts{1}.fill(src);
    support::layout const odd{{2, 3, 5}, {3, 2, 24}};
    for (auto const& l : {to, odd}) {
        auto const plan =
            ferry::make_copy_plan(l.at(dst.data(), four, ferry::cpu), from.at(src.data(), four, ferry::cpu));
        auto expected = dst;
        ferry::copy_on_host(plan, expected.data(), src.data());
        pack_job job;
        make_pack_job(plan, dst.data(), src.data(), job);
        run_job(job);
        CHECK(dst == expected);
        CHECK(job.kernel == pack_kernel::bits);
    }
}

TEST_CASE("a divisor divides every 31-bit number exactly") {
    std::uint64_t x = 1;
    auto const next = [&] {
        return static_cast<std::uint32_t>((x = x * 6364136223846793005u + 1442695040888963407u) >> 33);
    };
    for (int i = 0; i < 200000; ++i) {
        std::uint32_t const by = 1 + next() % (1u << (1 + i % 30));
        for (std::uint32_t const n :
             {next(), by - 1, by, (0x7fffffffu / by) * by, (0x7fffffffu / by) * by - 1, 0x7fffffffu}) {
            std::uint32_t rest = n;
            std::uint32_t const q = divide(rest, 0, divisor{by});
            REQUIRE(q == n / by);
            REQUIRE(rest == n % by);
        }
    }
}

TEST_CASE("the reach of a plan chooses the width of its indices") {
    ferry::data_type const byte{ferry::type_code::uint, 8};
    auto const job_of = [&](support::layout const& to, support::layout const& from) {
        pack_job job;
        auto* const nowhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
        make_pack_job(ferry::make_copy_plan(to.at(nowhere, byte, ferry::cpu), from.at(nowhere, byte, ferry::cpu)),
                      nowhere, nowhere, job);
        return job;
    };
    auto const small = support::compact({5, 3});
    CHECK(job_of(small, {{5, 3}, {7, 2}}).kernel == pack_kernel::gather_32);
    CHECK(job_of(small, {{5, 3}, {std::int64_t{1} << 29, 2}}).kernel == pack_kernel::gather_mixed);
    CHECK(job_of(small, {{5, 3}, {-(std::int64_t{1} << 29), 2}}).kernel == pack_kernel::gather_mixed);
    CHECK(job_of(support::compact({std::int64_t{1} << 32}), {{std::int64_t{1} << 32}, {2}}).kernel ==
          pack_kernel::gather_64);
    CHECK(job_of(support::compact({std::int64_t{1} << 32}), {{std::int64_t{1} << 32}, {2}}).blocks == max_pack_blocks);
    CHECK(job_of(support::compact({4096, 4096}), {{4096, 4096}, {1, 4096}}).kernel == pack_kernel::tiles_vector);
    CHECK(job_of(support::compact({4096, 4095}), {{4096, 4095}, {1, 4096}}).kernel == pack_kernel::tiles);
    CHECK(job_of(support::compact({4096, 3}), {{4096, 3}, {1, 4096}}).kernel == pack_kernel::gather_32);
}

TEST_CASE("scattered pieces are copied by the kernel's lanes as by memcpy, and nothing else is written") {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        CAPTURE(seed);
        support::random_pieces c{seed, 40};
        std::uint32_t const parts = 1 + seed % 4;
        for (auto const& p : c.at(c.dst.data(), c.src.data()))
            for (std::uint32_t part = 0; part < parts; ++part)
                for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) copy_piece(p, part, parts, lane);
        CHECK(c.dst == c.expected);
    }
}
