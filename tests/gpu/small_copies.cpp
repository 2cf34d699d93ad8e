// Small copies to pageable memory by the copier: correct, bounded, and in the order of their stream.
#include <ferry/cuda/copier.hpp>
#include <gpu/calls.hpp>
#include <gpu/world.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <random>
#include <thread>
#include <vector>

namespace {

using namespace support;
namespace cuda = ferry::cuda;

constexpr std::size_t kib = 1024, mib = kib * kib;

/// The first `n` floats of an array from `begin` on, copied over poison.
std::vector<float> fetch(cuda::copier& by, gpu_array const& from, std::int64_t begin, std::int64_t n,
                         ferry::stream_token on = {}) {
    std::vector<float> to(static_cast<std::size_t>(n), -1);
    std::int64_t const shape[] = {n};
    ferry::copy(ferry::tensor_view{to.data(), shape},
                ferry::tensor_view{static_cast<float const*>(from.first()) + begin, shape, {}, from.where}, by, on);
    return to;
}

bool counts_from(std::vector<float> const& values, std::int64_t begin) {
    for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i] != static_cast<float>(begin + static_cast<std::int64_t>(i) + 1)) return false;
    return true;
}

}  // namespace

TEST_CASE("copier: a small copy pins one buffer of its size class, and none where that is not allowed") {
    auto const source = make_array(gpu, ferry::already_ready, {mib / 4});
    cuda::copier_options options;
    options.most_pinned = 0;
    cuda::copier copier, without{options};
    CHECK(copier.pinned().first == 0);
    for (int i = 0; i < 3; ++i) CHECK(counts_from(fetch(copier, source, 7, 1000), 7));
    CHECK(copier.pinned().first == 64 * kib);
    for (int i = 0; i < 3; ++i) CHECK(counts_from(fetch(copier, source, 0, mib / 4), 0));
    CHECK(copier.pinned().first == 64 * kib + mib);
    CHECK(counts_from(fetch(without, source, 0, 1000), 0));
    CHECK(counts_from(fetch(without, source, 0, mib / 4), 0));
    CHECK(without.pinned().first == 0);
    CHECK(left_no_error());
}

TEST_CASE("copier: small copies work on more threads than there are pinned buffers") {
    cuda::copier copier;
    auto const source = make_array(gpu, ferry::already_ready, {mib / 4});
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 24; ++i)
        threads.emplace_back([&, i] {
            std::mt19937 random{i};
            test_stream const s;
            for (int round = 0; round < 100; ++round) {
                auto const begin = static_cast<std::int64_t>(random() % (mib / 8)),
                           n = static_cast<std::int64_t>(1 + random() % (round % 2 == 0 ? mib / 8 : 2048));
                if (!counts_from(fetch(copier, source, begin, n, round % 3 == 0 ? ferry::stream_token{} : s.token()),
                                 begin))
                    ++wrong;
            }
        });
    for (auto& t : threads) t.join();
    CHECK(wrong == 0);
    CHECK(copier.pinned().first <= 64 * mib);
}

TEST_CASE("copier: a small copy receives what a closed stream writes later (R48)") {
    cuda::copier copier;
    for (std::int64_t const n : {1000, 200'000})
        for (auto const where : {gpu, managed}) {
            test_stream const s;
            auto const source = make_poisoned(where, {n});
            static_cast<void>(fetch(copier, source, 0, n, s.token()));  // pins before the gate closes
            load_kernels();
            gate g{s.get()};
            iota(source.first(), source.size(), s.get());
            opener const later{g};
            auto const got = fetch(copier, source, 0, n, s.token());
            CHECK_GATED(g.is_open());
            CHECK(is_iota(got));
            CHECK_GATED(!g.was_forced());
        }
}

TEST_CASE("copier: after any call of a small copy fails, its buffer is free and the next copy works") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    test_stream const s;
    auto const source = make_array(gpu, ferry::already_ready, {1000});
    int failures = 0;
    for (int nth = 1; nth < 100; ++nth) {
        cuda::copier copier;
        calls::fail_at(nth);
        bool threw = false;
        try {
            static_cast<void>(fetch(copier, source, 0, 1000, s.token()));
        } catch (ferry::error const&) {
            threw = true;
        }
        bool const failed = calls::has_failed();
        calls::fail_at(0);
        CHECK(failed == threw);
        CHECK(left_no_error());
        CHECK(counts_from(fetch(copier, source, 0, 1000, s.token()), 0));
        CHECK(copier.pinned().first == 64 * kib);
        if (!failed) break;
        ++failures;
    }
    CHECK(failures > 5);
}
