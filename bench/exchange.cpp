// Measures exchanges in C++, compared with one malloc and free of the same block in the same run; the peers in peers/ are
// measured if they are found. bench/run compares the medians of interleaved repetitions.
#include "exchange.hpp"

#include <ferry/ferry.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>

namespace {

using bench::elements;
using bench::extents;
using bench::owner;

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

/// The halves of it.
void export_and_release(benchmark::State& state) {
    for (auto _ : state) {
        auto tensor = ferry::to_dlpack(owner{elements, extents});
        benchmark::DoNotOptimize(tensor.get());
    }
}
BENCHMARK(export_and_release);

void import_and_release(benchmark::State& state) {
    auto const kept = ferry::to_dlpack(owner{elements, extents});
    auto raw = *kept.get();
    raw.deleter = nullptr;
    for (auto _ : state) {
        auto* from = &raw;
        benchmark::DoNotOptimize(from);
        ferry::managed_tensor tensor = ferry::from_dlpack(from);
        benchmark::DoNotOptimize(tensor.view().data());
    }
}
BENCHMARK(import_and_release);

void borrow(benchmark::State& state) {
    owner lender{elements, extents};
    for (auto _ : state) {
        benchmark::DoNotOptimize(lender);  // or its extents are known to the compiler
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

/// The same block by hand, written once and checked by nobody: what no library can go below.
void by_hand(benchmark::State& state) {
    struct block {
        DLManagedTensorVersioned raw;
        owner held;
        std::int64_t metadata[8];
        explicit block(owner&& from) : held{std::move(from)} {}
        static void destroy(DLManagedTensorVersioned* raw) { delete static_cast<block*>(raw->manager_ctx); }
    };
    for (auto _ : state) {
        auto* b = new block{owner{elements, extents}};
        b->raw.version = {1, 3};
        b->raw.manager_ctx = b;
        b->raw.deleter = &block::destroy;
        b->raw.flags = 0;
        auto& t = b->raw.dl_tensor;
        t.data = b->held.data;
        t.device = {kDLCPU, 0};
        t.ndim = 4;
        t.dtype = {kDLFloat, 32, 1};
        t.shape = b->metadata;
        t.strides = b->metadata + 4;
        t.byte_offset = 0;
        std::int64_t step = 1;
        for (int i = 4; i-- > 0;) {
            t.shape[i] = b->held.shape[i];
            t.strides[i] = step;
            step *= t.shape[i];
        }
        auto* raw = &b->raw;
        benchmark::DoNotOptimize(raw);
        benchmark::DoNotOptimize(raw->dl_tensor.data);
        raw->deleter(raw);
    }
}
BENCHMARK(by_hand);

}  // namespace

BENCHMARK_MAIN();
