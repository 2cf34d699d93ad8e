// Tensors that leave a GPU and return: a working set of three times the limit, waits, exports, captures and threads.
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/lease.hpp>
#include <gpu/world.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

namespace {

using namespace support;
namespace cuda = ferry::cuda;
using ferry::managed_tensor;
using ferry::spill_manager;
using ferry::spillable;

/// 1 + `first`, 2 + `first`, … in memory of a space, written on a stream.
template <class Space>
[[nodiscard]] managed_tensor floats(Space space, std::int64_t count, float first, cudaStream_t on) {
    auto const n = static_cast<std::size_t>(count);
    ferry::buffer<Space> memory{n * sizeof(float), space};
    auto* const data = static_cast<float*>(memory.data());
    iota(data, n, on);
    add(data, data, first, n, on);
    ferry::tensor_view const view{data, {&count, 1}, {}, space.device()};
    return ferry::make_managed(std::move(memory), view);
}
[[nodiscard]] float const* data_of(managed_tensor const& m) { return static_cast<float const*>(m.view().data()); }
[[nodiscard]] bool holds(managed_tensor const& m, float first, cudaStream_t on) {
    must(cudaStreamSynchronize(on));
    auto values = read(data_of(m), static_cast<std::size_t>(m.view().size()));
    for (auto& v : values) v -= first;
    return is_iota(values);
}

/// Gigabytes per second of a call.
template <class F>
[[nodiscard]] double rate(std::size_t bytes, F f) {
    auto const begin = std::chrono::steady_clock::now();
    f();
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(bytes) / took.count() / 1e9;
}

}  // namespace

TEST_CASE("cuda lease: a working set of three times the limit keeps its values, below the limit") {
    bool const is_short = std::getenv("FERRY_SHORT") != nullptr;
    std::int64_t const count = is_short ? 1 << 16 : (1 << 24) - 1024;  // exact as floats
    auto const one = static_cast<std::size_t>(count) * sizeof(float);
    constexpr int sets = 24;
    load_kernels();
    cuda::copier copier;
    test_stream const s;
    for (std::size_t const most_pinned : {std::size_t{0}, sets * one}) {
        cuda::device_space const space{0};
        spill_manager manager{copier, space, {.limit = sets / 3 * one, .most_pinned = most_pinned}};
        std::size_t free_before = 0, total = 0, free_now = 0;
        must(cudaMemGetInfo(&free_before, &total));
        std::vector<spillable> all;
        for (int i = 0; i < sets; ++i) {
            auto room = manager.reserve(one);
            auto made = floats(space, count, 0, s.get());
            all.push_back(manager.adopt(std::move(made), s.token(), std::move(room)));
        }
        for (int round = 0; round < 2; ++round)
            for (auto const& t : all) {
                CHECK(manager.statistics().resident_bytes <= sets / 3 * one);
                managed_tensor const m = t.write(s.token());
                auto* const p = const_cast<float*>(data_of(m));
                add(p, p, 1, static_cast<std::size_t>(count), s.get());
            }
        must(cudaMemGetInfo(&free_now, &total));
        if (!is_short && free_before >= free_now) CHECK(free_before - free_now <= (sets / 3 + 1) * one);
        for (auto const& t : all) {
            managed_tensor const m = t.read(s.token());
            CHECK(holds(m, 2, s.get()));
        }
        if (is_short) continue;
        // The rates of spills and returns, beside the pinned link and managed memory.
        auto const before = manager.statistics();
        static_cast<void>(manager.free_up(sets * one));
        double const back = rate(sets / 3 * one, [&] {
            for (int i = 0; i < sets / 3; ++i) static_cast<void>(all[static_cast<std::size_t>(i)].read(s.token()));
        });
        double const out = rate(sets / 3 * one, [&] { static_cast<void>(manager.free_up(sets * one)); });
        CHECK(manager.statistics().spills >= before.spills + sets / 3);
        ferry::buffer<cuda::pinned_space> const host{one};
        cuda::memory const device{gpu, one, ferry::stream_token{}};
        double const link = rate(8 * one, [&] {
            for (int i = 0; i < 8; ++i)
                must(cudaMemcpyAsync(host.data(), device.data(), one, cudaMemcpyDeviceToHost, s.get()));
            s.finish();
        });
        MESSAGE("spill ", out, " GB/s, return ", back, " GB/s, cudaMemcpyAsync to pinned memory ", link,
                " GB/s, pinned bytes at most ", most_pinned);
    }
}

TEST_CASE("cuda lease: a spill waits for the kernels that were queued when the lease ended") {
    load_kernels();
    cuda::copier copier;
    test_stream const s, own;
    cuda::pool const pool{0};
    cuda::pool_space const space{pool, cuda::stream_ref{own.get()}};
    spill_manager manager{copier, space, {.stream = own.token()}};
    spillable const t = manager.adopt(floats(space, 1000, 0, own.get()), own.token());
    managed_tensor m = t.write(s.token());
    auto* const p = const_cast<float*>(data_of(m));
    {
        gate closed{s.get()};
        add(p, p, 5, 1000, s.get());
        m = {};
        CHECK_GATED(!closed.is_open());  // the end of a lease does not block
        opener const opens{closed};
        CHECK(manager.free_up(1) == 4000);
        CHECK_GATED(closed.is_open());
    }
    m = t.read(s.token());
    CHECK(holds(m, 5, s.get()));
}

TEST_CASE("cuda lease: a dropped tensor is freed behind its work, and dropping it does not block") {
    load_kernels();
    cuda::copier copier;
    test_stream const s;
    cuda::pool const pool{0};
    cuda::pool_space const space{pool, cuda::stream_ref{s.get()}};
    spill_manager manager{copier, space, {.stream = s.token()}};
    gate closed{s.get()};
    {
        spillable const t = manager.adopt(floats(space, 1000, 0, s.get()), s.token());
        managed_tensor const m = t.read(s.token());
    }
    CHECK_GATED(!closed.is_open());
    CHECK(manager.statistics().resident_bytes == 4000);
    closed.open();
    CHECK(manager.free_up(1) == 4000);
    CHECK(manager.statistics().resident_bytes == 0);
}

TEST_CASE("cuda lease: a read on another stream waits for the last write without blocking the host") {
    load_kernels();
    cuda::copier copier;
    test_stream const a, b;
    cuda::device_space const space{0};
    spill_manager manager{copier, space};
    spillable const t = manager.adopt(floats(space, 1000, 0, a.get()), a.token());
    auto const result = make_poisoned(gpu, {1000});
    gate closed{a.get()};
    {
        managed_tensor const m = t.write(a.token());
        auto* const p = const_cast<float*>(data_of(m));
        add(p, p, 5, 1000, a.get());
    }
    managed_tensor const m = t.read(b.token());
    add(const_cast<float*>(result.first()), data_of(m), 0, 1000, b.get());
    CHECK_GATED(!closed.is_open());
    closed.open();
    b.finish();
    auto values = read(result.first(), 1000);
    for (auto& v : values) v -= 5;
    CHECK(is_iota(values));
}

TEST_CASE("cuda lease: an exported tensor keeps its memory until its deleter runs, on any thread") {
    load_kernels();
    cuda::copier copier;
    test_stream const s;
    cuda::device_space const space{0};
    spill_manager manager{copier, space};
    spillable const t = manager.adopt(floats(space, 1000, 0, s.get()), s.token());
    auto* const raw = t.read(ferry::stream_token::cuda_per_thread_default()).release();
    CHECK(manager.free_up(1) == 0);
    std::thread{[&] { raw->deleter(raw); }}.join();
    CHECK(manager.free_up(1) == 4000);
    CHECK(manager.statistics().quarantined == 0);
    managed_tensor const m = t.read(s.token());
    CHECK(holds(m, 0, s.get()));
}

TEST_CASE("cuda lease: memory of a lease that ends while its stream is captured is quarantined") {
    load_kernels();
    cuda::copier copier;
    test_stream const s;
    cuda::device_space const space{0};
    std::optional<spill_manager> manager{std::in_place, copier, space};
    spillable const t = manager->adopt(floats(space, 1000, 0, s.get()), s.token());
    s.finish();
    managed_tensor m = t.read(s.token());
    must(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal));
    m = {};
    cudaGraph_t graph = nullptr;
    must(cudaStreamEndCapture(s.get(), &graph));  // the capture is valid
    must(cudaGraphDestroy(graph));
    CHECK(manager->statistics().quarantined == 1);
    CHECK(manager->free_up(1) == 0);
    m = t.read(s.token());
    CHECK(holds(m, 0, s.get()));
}

TEST_CASE("cuda lease: a spill while another stream is captured leaves the capture valid") {
    load_kernels();
    cuda::copier copier;
    test_stream const s, captured;
    cuda::device_space const space{0};
    spill_manager manager{copier, space};
    spillable const t = manager.adopt(floats(space, 1000, 0, s.get()), s.token());
    must(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal));
    auto const freed = manager.free_up(1);
    cudaGraph_t graph = nullptr;
    must(cudaStreamEndCapture(captured.get(), &graph));
    must(cudaGraphDestroy(graph));
    CHECK(freed == 4000);
    managed_tensor const m = t.read(s.token());
    CHECK(holds(m, 0, s.get()));
}

TEST_CASE("cuda lease: a shared tensor is copied on the stream of its writer, behind the last write") {
    load_kernels();
    cuda::copier copier;
    test_stream const a, b;
    cuda::device_space const space{0};
    auto first = std::make_optional<ferry::shared_tensor>(floats(space, 1000, 0, a.get()),
                                                          ferry::destination{space, copier}, a.token());
    ferry::shared_tensor second = *first;
    a.finish();
    b.finish();
    managed_tensor const old = first->read(b.token());
    {
        gate closed{a.get()};
        auto* const p = const_cast<float*>(data_of(old));
        add(p, p, 5, 1000, a.get());  // the pending work of a writer
        managed_tensor const m = second.write(a.token());
        auto* const q = const_cast<float*>(data_of(m));
        CHECK(q != p);
        add(q, q, 7, 1000, a.get());
        CHECK_GATED(!closed.is_open());  // the copy is queued
    }
    managed_tensor const m = second.read(a.token());
    CHECK(holds(m, 12, a.get()));
    CHECK(holds(old, 5, a.get()));
    first.reset();
    CHECK(holds(old, 5, a.get()));
}

TEST_CASE("cuda lease: eight threads share a device that is too small for them") {
    load_kernels();
    cuda::copier copier;
    cuda::device_space const space{0};
    constexpr std::int64_t count = 1 << 14;
    constexpr std::size_t one = count * sizeof(float);
    spill_manager manager{copier, space, {.limit = 10 * one}};
    std::atomic<int> wrong = 0;
    {
        std::vector<std::thread> threads;
        for (int i = 0; i < 8; ++i)
            threads.emplace_back([&, i] {
                test_stream const s;
                std::vector<spillable> mine;
                for (int k = 0; k < 4; ++k)
                    mine.push_back(manager.adopt(floats(space, count, static_cast<float>(i + k), s.get()), s.token()));
                for (int round = 0; round < 5; ++round)
                    for (int k = 0; k < 4; ++k) {
                        managed_tensor const m = mine[static_cast<std::size_t>(k)].read(s.token());
                        if (!holds(m, static_cast<float>(i + k), s.get())) ++wrong;
                    }
            });
        for (auto& thread : threads) thread.join();
    }
    CHECK(wrong == 0);
    CHECK(manager.statistics().quarantined == 0);
}

TEST_CASE("cuda lease: the program of docs/leases.md") {
    load_kernels();
    test_stream const s;
    auto const stream = s.token();
    {
        auto const launch = [&](ferry::typed_view<float const, 1, ferry::access_from::device> const& v) {
            add(const_cast<float*>(v.data()), v.data(), 1, static_cast<std::size_t>(v.extent(0)), s.get());
        };
        auto const read_from_disk = [&](ferry::cuda::device_space const& space) {
            return floats(space, 1000, 0, s.get());
        };
        // [spill]
        ferry::cuda::copier copier{{.most_kept = 4'000'000'000}};  // pinned memory, for the next spills
        ferry::cuda::device_space const device{0};
        ferry::spill_manager manager{copier, device, {.limit = 40'000'000'000, .most_pinned = 4'000'000'000}};

        ferry::reservation room = manager.reserve(4000);  // makes room before the memory is allocated
        ferry::managed_tensor tensor = read_from_disk(device);
        ferry::spillable const t = manager.adopt(std::move(tensor), stream, std::move(room));
        {
            // On the device again, if it had left it. Stays there while `m`, or what `m` is exported as, exists.
            ferry::managed_tensor const m = t.read(stream);
            launch(m.as<float const, 1, ferry::access_from::device>());  // queues a kernel on the stream
        }  // the tensor may leave again, when the kernel has run
        // [/spill]
        // [room]
        // Any memory space: when the device is out of memory, spills tensors and tries again.
        ferry::retrying_space<ferry::cuda::device_space> const space{device, manager};
        ferry::buffer<ferry::retrying_space<ferry::cuda::device_space>> const workspace{1 << 20, space};
        // [/room]
        auto another = read_from_disk(device);
        // [share]
        ferry::shared_tensor a{std::move(another), ferry::destination{device, copier}, stream}, b = a;  // share memory
        ferry::managed_tensor const old = a.read(stream);  // read-only; does not copy
        ferry::managed_tensor const w =
            b.write(stream);  // `b` has memory of its own now; `old` and `a` keep the values
        // [/share]
        CHECK(data_of(w) != data_of(old));
        CHECK(manager.free_up(1) == 4000);
        CHECK(workspace.size() == 1 << 20);
        s.finish();
    }
    CHECK(left_no_error());
}
