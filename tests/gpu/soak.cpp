// A soak: very many exchanges by eight threads; memory stays flat, results right. Run by its name: --test-case='soak*'
// --no-skip.
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pack.hpp>
#include <ferry/cuda/pending.hpp>
#include <ferry/cuda/reaper.hpp>
#include <gpu/world.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include <unistd.h>

namespace {

using namespace support;
namespace cuda = ferry::cuda;
using ferry::copy_policy;

constexpr int threads = 8;
constexpr std::int64_t mib = 1 << 20;

[[nodiscard]] int number(char const* name, int otherwise) {
    char const* const said = std::getenv(name);
    return said != nullptr ? std::atoi(said) : otherwise;
}

/// MiB of resident memory of the process, and of allocated device memory.
struct taken_memory {
    std::int64_t host, device;
    [[nodiscard]] static taken_memory now() {
        std::int64_t total = 0, resident = 0;
        std::ifstream{"/proc/self/statm"} >> total >> resident;
        std::size_t free = 0, all = 0;
        must(cudaMemGetInfo(&free, &all));
        return {resident * sysconf(_SC_PAGESIZE) / mib, static_cast<std::int64_t>(all - free) / mib};
    }
};

[[nodiscard]] bool is_right(ferry::managed_tensor const& on_host) { return is_iota_on_host(on_host.view()); }
[[nodiscard]] bool is_same(ferry::managed_tensor const& on_host, std::vector<float> const& want) {
    return std::memcmp(on_host.view().data(), want.data(), want.size() * sizeof(float)) == 0;
}

/// The device's pool keeps its memory, as programs under load configure it: else every wait returns memory to the
/// driver.
class kept_pool {
   public:
    kept_pool() {
        must(cudaDeviceGetMemPool(&pool_, 0));
        must(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &before_));
        auto all = ~std::uint64_t{0};
        must(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &all));
    }
    kept_pool(kept_pool const&) = delete;
    ~kept_pool() { static_cast<void>(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &before_)); }

   private:
    cudaMemPool_t pool_ = nullptr;
    std::uint64_t before_ = 0;
};

/// Runs `count` of an exchange on all threads, after a tenth as many to warm up, and watches memory in between. `make`
/// gives each thread what exchanges the i-th time and says whether the result was right.
template <class Make>
void soak(char const* what, int count, Make make) {
    kept_pool const pool;
    auto const used_before = pool_bytes_used();
    std::atomic<int> done = 0, wrong = 0, running = threads;
    std::vector<std::thread> all;
    auto const begin = std::chrono::steady_clock::now();
    for (int t = 0; t < threads; ++t)
        all.emplace_back([&, t] {
            try {
                auto exchange = make(t);
                for (int i; (i = done++) < count;)
                    if (!exchange(i)) ++wrong;
            } catch (std::exception const& e) {
                std::printf("soak %s: %s\n", what, e.what());
                ++wrong;
            }
            --running;
        });
    while (running > 0 && done < count / 10) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    auto const first = taken_memory::now();
    auto most = first;
    while (running > 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
        auto const now = taken_memory::now();
        most = {std::max(most.host, now.host), std::max(most.device, now.device)};
    }
    for (auto& t : all) t.join();
    double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    auto const last = taken_memory::now();
    auto const n = [](auto x) { return static_cast<long long>(x); };
    std::printf(
        "soak %s: %d exchanges by %d threads in %.1f s, %d wrong; host memory %lld MiB after a tenth, at most %lld, %lld at the end; "
        "device memory %lld, %lld, %lld; %lld bytes of the pool left\n",
        what, count, threads, seconds, wrong.load(), n(first.host), n(most.host), n(last.host), n(first.device),
        n(most.device), n(last.device), n(pool_bytes_used()) - n(used_before));
    std::fflush(stdout);
    CHECK(wrong == 0);
    CHECK(done >= count);
    CHECK(pool_bytes_used() == used_before);
    CHECK(most.host - first.host <= 256);
    CHECK(last.host - first.host <= 64);  // of any leak per exchange nine tenths would show
    CHECK(last.device - first.device <= 64);
    CHECK(left_no_error());
}

}  // namespace

TEST_CASE("soak: small exchanges of every kind" * doctest::skip()) {
    cuda::copier copier;
    soak("small", number("FERRY_SOAK_SMALL", 1'000'000), [&](int t) {
        struct state {
            test_stream theirs, ours;
            gpu_array arrays[3];
            cuda::reaper reaper;
        };
        auto const s = std::make_shared<state>();
        for (int i = 0; i < 3; ++i) s->arrays[i] = make_array(cuda_memory[i], s->theirs.token(), {1 + t, 64});
        s->theirs.finish();
        return [s, &copier](int i) {
            auto const& array = s->arrays[i % 3];
            auto const ours = s->ours.token(), theirs = s->theirs.token();
            switch (i / 3 % 5) {
                case 0: {  // shared, in order
                    auto const got = ferry::from_dlpack<taken>(array, {.stream = ours}, cuda::system);
                    return got.tensor.view().data() == array.first();
                }
                case 1: {  // shared, and released when the stream got there
                    cuda::release_after(ours, s->reaper, ferry::to_dlpack(array, {.stream = ours}, cuda::system));
                    s->reaper.poll();
                    return s->reaper.size() < 100'000;
                }
                case 2: {  // copied on the stream, and the copy to the host
                    auto copied =
                        ferry::to_dlpack(s->arrays[i % 2], {.copy = copy_policy::always, .stream = ours}, copier);
                    return is_right(ferry::to_host(std::move(copied), cuda::system, ours));
                }
                case 3: {  // to pinned memory without blocking
                    auto const& source = s->arrays[0];
                    return is_right(cuda::copy_async(ferry::to_dlpack(source, {.stream = theirs}, cuda::system), pinned,
                                                     copier, theirs, ours)
                                        .get());
                }
                default: return is_right(ferry::to_host(array, copier));
            }
        };
    });
}

TEST_CASE("soak: large exchanges, down and up, strided and not" * doctest::skip()) {
    constexpr std::int64_t rows = 1024, columns = 4096;  // 16 MiB
    cuda::copier_options options;
    options.pack = cuda::pack;
    options.most_kept = std::size_t{256} << 20;  // a result for each thread, pinned once
    cuda::copier copier{options};
    std::vector<float> compact(rows * columns), transposed(rows * columns);
    for (std::size_t i = 0; i < compact.size(); ++i) compact[i] = static_cast<float>(i + 1);
    for (std::int64_t y = 0; y < columns; ++y)
        for (std::int64_t x = 0; x < rows; ++x)
            transposed[static_cast<std::size_t>(y * rows + x)] = compact[static_cast<std::size_t>(x * columns + y)];
    soak("large", number("FERRY_SOAK_LARGE", 10'000), [&](int) {
        struct state {
            test_stream s;
            gpu_array source, turned, target;
            std::vector<float> touched = std::vector<float>(rows * columns);
        };
        auto const st = std::make_shared<state>();
        st->source = make_array(gpu, st->s.token(), {rows, columns});
        st->turned = st->source;
        st->turned.shape = {columns, rows}, st->turned.strides = {1, columns};
        st->target = make_poisoned(gpu, {rows, columns});
        st->s.finish();
        return [st, &copier, &compact, &transposed](int i) {
            auto const on = st->s.token();
            auto const near = [&](std::vector<float>& v) { return ferry::tensor_view{v.data(), st->source.shape}; };
            auto const far = [&](gpu_array const& a) { return ferry::tensor_view{a.first(), a.shape, a.steps(), gpu}; };
            switch (i % 4) {
                case 0: return is_same(ferry::to_host(st->source, copier), compact);
                case 1: return is_same(ferry::to_host(st->turned, copier), transposed);
                case 2:
                    st->touched[static_cast<std::size_t>(i) % st->touched.size()] = 0;
                    ferry::copy(near(st->touched), far(st->source), copier, on);
                    return st->touched == compact;
                default: {
                    ferry::copy(far(st->target), near(compact), copier, on);
                    return is_same(
                        cuda::copy_async(ferry::to_dlpack(st->target, {.stream = on}, copier), pinned, copier, on)
                            .get(),
                        compact);
                }
            }
        };
    });
}
