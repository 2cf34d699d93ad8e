// What an exchange costs in C++, as ratios against one malloc and free of the same block in the same run.
#include <ferry/ferry.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

namespace {

/// The smallest owner that is not trivial: moved in, released once. Its memory lives elsewhere, so that only ferry is timed.
struct owner {
    float* data = nullptr;
    std::int64_t const* shape = nullptr;

    owner(float* d, std::int64_t const* s) noexcept : data{d}, shape{s} {}
    owner(owner&& other) noexcept : data{std::exchange(other.data, nullptr)}, shape{other.shape} {}
    ~owner() { benchmark::DoNotOptimize(data); }

    [[nodiscard]] ferry::tensor_view ferry_view() const noexcept { return {data, {shape, 4}}; }
    [[nodiscard]] ferry::tensor_view ferry_view() noexcept { return {data, {shape, 4}}; }
};

float elements[2 * 3 * 4 * 5];
constexpr std::int64_t extents[] = {2, 3, 4, 5};

/// The block of an export of rank 4: struct, owner, shape and strides.
constexpr std::size_t block_bytes = sizeof(DLManagedTensorVersioned) + sizeof(owner) + 2 * sizeof extents;

void malloc_and_free(benchmark::State& state) {
    for (auto _ : state) {
        void* p = std::malloc(block_bytes);
        benchmark::DoNotOptimize(p);
        std::free(p);
    }
}
BENCHMARK(malloc_and_free);

void export_import_release(benchmark::State& state) {
    for (auto _ : state) {
        DLManagedTensorVersioned* raw = ferry::to_dlpack(owner{elements, extents}).release();
        benchmark::DoNotOptimize(raw);
        ferry::managed_tensor back = ferry::from_dlpack(raw);
        benchmark::DoNotOptimize(back.view().data());
    }
}
BENCHMARK(export_import_release);

void borrow(benchmark::State& state) {
    owner lender{elements, extents};
    for (auto _ : state) {
        auto loan = ferry::borrow(lender);
        benchmark::DoNotOptimize(loan.dltensor());
    }
}
BENCHMARK(borrow);

void typed_view(benchmark::State& state) {
    auto const tensor = ferry::to_dlpack(owner{elements, extents});
    for (auto _ : state) {
        auto view = tensor.as<float, 4>();
        benchmark::DoNotOptimize(view.data());
    }
}
BENCHMARK(typed_view);

}  // namespace

BENCHMARK_MAIN();
