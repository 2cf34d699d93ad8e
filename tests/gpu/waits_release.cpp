// Memory that comes and goes in the order of streams, and results that are waited for: each wait has a mutant
// (tests/mutants/cuda.toml). Memory that is free too early shows when others get it while its stream is closed.
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/detail/memory/temporary.hpp>
#include <ferry/cuda/pending.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/reaper.hpp>
#include <gpu/calls.hpp>
#include <gpu/world.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace {

using namespace support;
namespace cuda = ferry::cuda;
using ferry::stream_token;

constexpr std::size_t many = std::size_t{1} << 20;  // floats

constexpr int blocks = 24;  // more than what a pool maps at a time holds

/// The device's current pool, which keeps its memory.
class own_pool {
   public:
    own_pool() {
        must(cudaDeviceGetMemPool(&before_, 0));
        must(cudaDeviceSetMemPool(0, pool_.get()));
    }
    own_pool(own_pool const&) = delete;
    ~own_pool() { static_cast<void>(cudaDeviceSetMemPool(0, before_)); }
    [[nodiscard]] cuda::pool const& get() const { return pool_; }

   private:
    cuda::pool pool_;
    cudaMemPool_t before_ = nullptr;
};

/// Takes all free memory of a pool for work on another stream, and overwrites it at once.
class grabber {
   public:
    explicit grabber(cuda::pool const& from, int count) {
        for (int i = 0; i < count; ++i) {
            void* p = nullptr;
            must(cudaMallocFromPoolAsync(&p, many * sizeof(float), from.get(), stream_.get()));
            must(cudaMemsetAsync(p, poison, many * sizeof(float), stream_.get()));
            grabbed_.push_back(p);
        }
        stream_.finish();
    }
    grabber(grabber const&) = delete;
    ~grabber() {
        for (void* const p : grabbed_) static_cast<void>(cudaFreeAsync(p, stream_.get()));
        static_cast<void>(cudaStreamSynchronize(stream_.get()));
    }

   private:
    test_stream stream_;
    std::vector<void*> grabbed_;
};

/// `use` allocates on `on`, passes the memory to its argument, and frees it; other streams must not get the memory
/// before that work has run.
template <class Use>
void is_given_back_behind(cudaStream_t on, Use use) {
    own_pool const pool;
    auto const result = make_poisoned(gpu, {static_cast<std::int64_t>(many)});
    load_kernels();
    {
        grabber const warm{pool.get(), blocks / 2};
    }
    std::optional<gate> closed;
    use(pool.get(), [&](void* p) {
        iota(static_cast<float*>(p), many, on);
        must(cudaStreamSynchronize(on));
        closed.emplace(on);
        add(result.first(), static_cast<float const*>(p), 0, many, on);
    });
    grabber const others{pool.get(), blocks};
    CHECK_GATED(!closed->is_open());
    closed->open();
    must(cudaStreamSynchronize(on));
    CHECK_GATED(!closed->was_forced());
    CHECK(is_iota(read(result.first(), many)));
}

/// Memory that work on the per-thread default stream still uses when it is freed there is free for that stream only.
/// `make` allocates on the stream that it is passed.
template <class Make>
void is_given_out_for_its_stream(Make make) {
    own_pool const pool;
    test_stream const s;
    auto const result = make_poisoned(gpu, {static_cast<std::int64_t>(many)});
    load_kernels();
    void* p = nullptr;
    must(cudaMallocFromPoolAsync(&p, many * sizeof(float), pool.get().get(), cudaStreamPerThread));
    iota(static_cast<float*>(p), many, cudaStreamPerThread);
    must(cudaStreamSynchronize(cudaStreamPerThread));
    {
        gate closed{cudaStreamPerThread};
        add(result.first(), static_cast<float const*>(p), 0, many, cudaStreamPerThread);
        must(cudaFreeAsync(p, cudaStreamPerThread));
        std::vector<decltype(make(pool.get(), s))> made;
        for (int i = 0; i < blocks; ++i) {
            auto const& m = made.emplace_back(make(pool.get(), s));
            must(cudaMemsetAsync(m->data(), poison, many * sizeof(float), s.get()));
        }
        s.finish();
        CHECK_GATED(!closed.is_open());
        closed.open();
        must(cudaStreamSynchronize(cudaStreamPerThread));
        CHECK_GATED(!closed.was_forced());
    }
    CHECK(is_iota(read(result.first(), many)));
}

/// A copy to pinned memory of data that the stream `theirs` writes once its gate opens.
struct closed_copy {
    cuda::copier copier;
    test_stream theirs, ours;
    gpu_array source = make_poisoned(gpu, {1000});
    std::weak_ptr<cuda::memory> alive = source.memory;
    std::optional<gate> closed;

    closed_copy() {
        load_kernels();
        cuda::order(theirs.token(), ours.token());  // makes the thread's event
        {
            auto const warm = copier.allocate(pinned, 4000, {});
        }
        closed.emplace(theirs.get());
        iota(source.first(), source.size(), theirs.get());
    }
    [[nodiscard]] cuda::pending<ferry::managed_tensor> start(stream_token on) {
        return cuda::copy_async(ferry::to_dlpack(std::move(source)), pinned, copier, theirs.token(), on);
    }
};

}  // namespace

TEST_CASE("pending R50: its destructor waits for the work, and keeps the source until then") {
    closed_copy c;
    std::optional copy{c.start({})};
    CHECK_GATED(!c.closed->is_open());
    CHECK(!c.alive.expired());
    opener const later{*c.closed};
    copy.reset();
    CHECK_GATED(c.closed->is_open());
    CHECK(c.alive.expired());
}

TEST_CASE("pending R48: the result of get is complete") {
    closed_copy c;
    auto copy = c.start({});
    CHECK_GATED(!copy.is_ready());
    opener const later{*c.closed};
    auto const got = copy.get();
    CHECK_GATED(c.closed->is_open());
    CHECK(is_iota_on_host(got.view()));
    CHECK(c.alive.expired());
}

TEST_CASE("copy_async R43: the copy waits for the stream on which its source is ready") {
    closed_copy c;
    auto copy = c.start(c.ours.token());
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    CHECK_GATED(!c.closed->is_open());
    CHECK_GATED(!c.ours.is_idle());
    c.closed->open();
    auto const got = copy.get();
    CHECK_GATED(!c.closed->was_forced());
    CHECK(is_iota_on_host(got.view()));
}

TEST_CASE("copy_async: when it fails, the source stays the caller's and no work is pending") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    cuda::copier copier;
    test_stream const s;
    auto const source = make_array(gpu, ferry::already_ready, {1000});
    {
        auto const warm = copier.allocate(pinned, 4000, {});
    }
    int seen = 0;
    bool failed = true;
    for (int n = 1; failed && n < 200; ++n) {
        CAPTURE(n);
        auto tensor = ferry::to_dlpack(source);
        gate closed{s.get()};
        opener const later{closed, std::chrono::milliseconds{50}};
        std::optional<cuda::pending<ferry::managed_tensor>> copy;
        bool threw = false, is_open = false;
        calls::reset();
        calls::fail_at(n);
        try {
            copy.emplace(cuda::copy_async(std::move(tensor), pinned, copier, s.token()));
        } catch (ferry::error const&) {
            threw = true;
            is_open = closed.is_open();
        }
        failed = calls::has_failed();
        bool const was_queued = calls::count(calls::of::copy) == 1 && calls::count(calls::of::record) == 1;
        calls::fail_at(0);
        CHECK(failed == threw);
        if (!threw) continue;
        CHECK(static_cast<bool>(tensor));
        if (!was_queued) continue;
        ++seen;
        CHECK(is_open);
    }
    CHECK(!failed);
    CHECK(seen > 0);
    CHECK(left_no_error());
}

TEST_CASE("reaper R50: keeps a tensor while its stream is closed, and waits for it in the destructor") {
    test_stream const s;
    std::optional<cuda::reaper> reaper{std::in_place};
    auto watched = make_array(gpu, ferry::already_ready, {1000});
    std::weak_ptr<cuda::memory> const alive = watched.memory;
    gate closed{s.get()};
    cuda::release_after(s.token(), *reaper, ferry::to_dlpack(std::move(watched)));
    CHECK_GATED(reaper->poll() == 0);
    CHECK(!alive.expired());
    CHECK_GATED(!closed.is_open());
    opener const later{closed};
    reaper.reset();
    CHECK_GATED(closed.is_open());
    CHECK(alive.expired());
}

TEST_CASE("cuda: temporary memory is allocated and freed in the order of its stream") {
    test_stream const s;
    is_given_back_behind(s.get(), [&](cuda::pool const& pool, auto work) {
        cuda::detail::temporary const t{pool, many * sizeof(float), s.get()};
        work(t.data());
    });
    is_given_out_for_its_stream([](cuda::pool const& pool, test_stream const& on) {
        return std::make_unique<cuda::detail::temporary const>(pool, many * sizeof(float), on.get());
    });
}

TEST_CASE("cuda: memory of a pool is allocated and freed in the order of its stream") {
    test_stream const s;
    is_given_back_behind(s.get(), [&](cuda::pool const& pool, auto work) {
        ferry::buffer<cuda::pool_space> const b{many * sizeof(float), cuda::pool_space{pool, s.get()}};
        work(b.data());
    });
    is_given_out_for_its_stream([](cuda::pool const& pool, test_stream const& on) {
        return std::make_unique<ferry::buffer<cuda::pool_space>>(many * sizeof(float),
                                                                 cuda::pool_space{pool, on.get()});
    });
}

TEST_CASE("cuda: memory is usable on the stream that it is allocated on") {
    is_given_out_for_its_stream([](cuda::pool const&, test_stream const& on) {
        return std::make_unique<cuda::memory>(gpu, many * sizeof(float), on.token());
    });
}

TEST_CASE("cuda: memory allocated without a stream is usable on any stream") {
    load_kernels();
    gate closed{cudaStreamPerThread};
    opener const later{closed};
    cuda::memory const m{gpu, many * sizeof(float), {}};
    CHECK_GATED(closed.is_open());
}

TEST_CASE("cuda R66: memory is freed in the order of the legacy stream") {
    is_given_back_behind(cudaStreamLegacy, [](cuda::pool const&, auto work) {
        cuda::memory const m{gpu, many * sizeof(float), stream_token::cuda_legacy_default()};
        work(m.data());
    });
}

TEST_CASE("cuda R66: memory whose release a capture deferred is freed in the order of the legacy stream") {
    is_given_back_behind(cudaStreamLegacy, [](cuda::pool const&, auto work) {
        test_stream const blocking{cudaStreamDefault};
        std::optional<cuda::memory> m{std::in_place, gpu, many * sizeof(float), stream_token::cuda_legacy_default()};
        std::optional<cuda::memory> next{std::in_place, gpu, std::size_t{64}, stream_token::cuda_legacy_default()};
        work(m->data());
        must(cudaStreamBeginCapture(blocking.get(), cudaStreamCaptureModeGlobal));
        m.reset();
        cudaGraph_t graph = nullptr;
        must(cudaStreamEndCapture(blocking.get(), &graph));
        must(cudaGraphDestroy(graph));
        next.reset();  // frees what was kept
    });
}
