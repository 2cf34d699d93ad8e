// Measures leases in host memory: the choice of a victim among 10^5 allocations, adopt, read and drop beside a copy of
// a std::shared_ptr, and a batch of spills and returns beside one copy of as many bytes. Without streams: events cost
// more.
#include <benchmark/benchmark.h>
#include <ferry/lease.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace {

/// Memory that exists already, so that its allocation is not measured.
struct reused_space {
    void* memory;
    [[nodiscard]] void* allocate(std::size_t, std::size_t) const noexcept { return memory; }
    void deallocate(void*, std::size_t, std::size_t) const noexcept {}
    [[nodiscard]] ferry::device device() const noexcept { return ferry::cpu; }
};
/// Copies nothing.
struct no_copies : ferry::host_back_end {
    [[nodiscard]] ferry::buffer<reused_space> allocate(ferry::device, std::size_t bytes, ferry::stream_token) const {
        static char memory[64];
        return ferry::buffer<reused_space>{bytes, reused_space{memory}};
    }
    bool copy(ferry::copy_plan const&, void*, ferry::device, void const*, ferry::device,
              ferry::stream_token) const noexcept {
        return true;
    }
};

template <class Space>
[[nodiscard]] ferry::managed_tensor bytes(Space space, std::int64_t count) {
    ferry::buffer<Space> memory{static_cast<std::size_t>(count), space};
    ferry::tensor_view const view{memory.data(), ferry::dtype_of<std::uint8_t>, {&count, 1}, {}, space.device()};
    return ferry::make_managed(std::move(memory), view);
}

/// One spill without its copy, and the end of a lease.
void victim(benchmark::State& state) {
    no_copies const back_end;
    char memory[64];
    ferry::spill_manager manager{back_end, reused_space{memory}};
    std::vector<ferry::spillable> all;
    for (std::int64_t i = 0; i < state.range(0); ++i)
        all.push_back(manager.adopt(bytes(reused_space{memory}, 64), ferry::already_ready));
    std::size_t i = 0;
    for (auto _ : state) {
        if (manager.free_up(1) == 0) state.SkipWithError("nothing was spilled");
        if (++i == all.size()) {
            state.PauseTiming();
            for (auto const& t : all) static_cast<void>(t.read({}));
            i = 0;
            state.ResumeTiming();
        }
    }
}

void shared_copy(benchmark::State& state) {
    auto const p = std::make_shared<int>(1);
    for (auto _ : state) {
        auto copy = p;
        benchmark::DoNotOptimize(copy);
    }
}
/// The tensor that is adopted is made outside of the measurement, and kept by an owner that frees nothing.
void adopt_read_drop(benchmark::State& state) {
    char memory[64];
    ferry::spill_manager manager{ferry::host_only, reused_space{memory}};
    std::vector<ferry::managed_tensor> made(1000);
    std::size_t i = made.size();
    for (auto _ : state) {
        if (i == made.size()) {
            state.PauseTiming();
            for (auto& t : made) t = bytes(reused_space{memory}, 64);
            i = 0;
            state.ResumeTiming();
        }
        ferry::spillable const t = manager.adopt(std::move(made[i++]), {});
        ferry::managed_tensor const m = t.read({});
        benchmark::DoNotOptimize(m.get());
    }
}
void read_drop(benchmark::State& state) {
    char memory[64];
    ferry::spill_manager manager{ferry::host_only, reused_space{memory}};
    ferry::spillable const t = manager.adopt(bytes(reused_space{memory}, 64), {});
    for (auto _ : state) {
        ferry::managed_tensor const m = t.read({});
        benchmark::DoNotOptimize(m.get());
    }
}

constexpr std::size_t piece = std::size_t{4} << 20, pieces = 16;

/// Host memory that exists already, for both sides.
struct touched : ferry::host_back_end {
    std::vector<char>* memory;
    [[nodiscard]] ferry::buffer<reused_space> allocate(ferry::device, std::size_t n, ferry::stream_token) const {
        return ferry::buffer<reused_space>{n, reused_space{memory->data()}};
    }
};
void batch(benchmark::State& state) {
    std::vector<char> device(piece, 1), host(piece, 2);
    touched back_end;
    back_end.memory = &host;
    ferry::spill_manager manager{back_end, reused_space{device.data()}};
    std::vector<ferry::spillable> all;
    for (std::size_t i = 0; i < pieces; ++i)
        all.push_back(manager.adopt(bytes(reused_space{device.data()}, static_cast<std::int64_t>(piece)), {}));
    for (auto _ : state) {
        if (manager.free_up(pieces * piece) != pieces * piece) state.SkipWithError("not all were spilled");
        for (auto const& t : all) static_cast<void>(t.read({}));
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * 2 * pieces * piece));
}
void plain_copy(benchmark::State& state) {
    std::vector<char> device(piece, 1), host(piece, 2);
    for (auto _ : state)
        for (std::size_t i = 0; i < pieces; ++i) {
            std::memcpy(host.data(), device.data(), piece);
            benchmark::ClobberMemory();
            std::memcpy(device.data(), host.data(), piece);
            benchmark::ClobberMemory();
        }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * 2 * pieces * piece));
}

}  // namespace

BENCHMARK(victim)->Arg(1000)->Arg(100000);
BENCHMARK(shared_copy);
BENCHMARK(adopt_read_drop);
BENCHMARK(read_drop);
BENCHMARK(plain_copy);
BENCHMARK(batch);

BENCHMARK_MAIN();
