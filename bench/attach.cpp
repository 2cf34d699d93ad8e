// Measures the attach of a host tensor: one that finds the mapping of its session, one that maps the memory, and one
// without a session, which also identifies this process; and the system calls for the same memory. Each reads an
// element.
#include <benchmark/benchmark.h>
#include <ferry/ipc.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

struct pixels {
    std::vector<float> values = std::vector<float>(1 << 18, 7.0f);
    std::array<std::int64_t, 1> extents{1 << 18};

    ferry::tensor_view ferry_view() { return {values.data(), {extents}}; }
    ferry::tensor_view ferry_view() const { return {values.data(), {extents}}; }
};

/// What is attached: two sessions, so that it is no alias, as if they were two processes.
struct exported {
    ferry::ipc::session session;
    ferry::ipc::shared shared = ferry::ipc::share(pixels{}, {.session = &session});
};

void read(float const* element) {
    float value = *element;
    benchmark::DoNotOptimize(value);
}

void attach(benchmark::State& state, ferry::ipc::session* session) {
    exported const e;
    for (auto _ : state) {
        auto const t = ferry::ipc::attach(e.shared.descriptor(), {.session = session});
        read(static_cast<float const*>(t.view().data()));
    }
}

void found(benchmark::State& state) {
    ferry::ipc::session session;
    attach(state, &session);
}
void mapped(benchmark::State& state) {
    ferry::ipc::session session{{.unused_mappings = 0}};
    attach(state, &session);
}
void alone(benchmark::State& state) { attach(state, nullptr); }

void by_hand(benchmark::State& state) {
    exported const e;
    auto const& memory = e.shared.descriptor().memories[0];
    std::size_t const bytes = memory.offset + memory.length;
    for (auto _ : state) {
        int const fd = shm_open(memory.name.c_str(), O_RDWR | O_CLOEXEC, 0);
        void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd < 0 || at == MAP_FAILED) std::perror(memory.name.c_str()), std::exit(1);
        close(fd);
        read(reinterpret_cast<float const*>(static_cast<std::byte const*>(at) + memory.offset));
        munmap(at, bytes);
    }
}

BENCHMARK(found);
BENCHMARK(mapped);
BENCHMARK(alone);
BENCHMARK(by_hand);

}  // namespace

BENCHMARK_MAIN();
