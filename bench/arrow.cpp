// Measures the import of a column through Arrow's C data interface and its export with the schema, until everything has
// been released, and copies of columns. nanoarrow's C library is measured if its sources are found
// (peers/nanoarrow.cpp), and Arrow C++ if pyarrow is (peers/pyarrow.cpp).
#include "arrow.hpp"

#include <ferry/arrow.hpp>
#include <ferry/arrow/concat.hpp>

#include <cstdlib>

namespace {

void import_export_release(benchmark::State& state) {
    bench::each(state, [](ArrowArray& array, ArrowSchema& schema) {
        auto const c = ferry::from_arrow(&array, &schema);
        ArrowArray out;
        ArrowSchema type;
        ferry::to_arrow(c, &out);
        ferry::to_arrow_schema(c, &type);
        benchmark::DoNotOptimize(&out);
        benchmark::DoNotOptimize(&type);
        out.release(&out);
        type.release(&type);
    });
}
BENCHMARK(import_export_release)->Arg(1)->Arg(bench::columns);

/// The halves of it.
void import_and_release(benchmark::State& state) {
    bench::each(state, [](ArrowArray& array, ArrowSchema& schema) {
        auto const c = ferry::from_arrow(&array, &schema);
        benchmark::DoNotOptimize(&c);
    });
}
BENCHMARK(import_and_release)->Arg(1)->Arg(bench::columns);

/// The floor: two blocks of the size of an export, and one of an import's.
void malloc_and_free_three(benchmark::State& state) {
    for (auto _ : state) {
        void* blocks[] = {std::malloc(300), std::malloc(200), std::malloc(400)};
        benchmark::DoNotOptimize(blocks);
        for (void* p : blocks) std::free(p);
    }
}
BENCHMARK(malloc_and_free_three);

void compact(benchmark::State& state, char const* format, bool nulls) {
    auto const slice = bench::slices(format, nulls, state.range(0), 1)[0];
    for (auto _ : state) {
        auto const c = ferry::compact(slice.view());
        benchmark::DoNotOptimize(&c);
    }
}
BENCHMARK_CAPTURE(compact, i, "i", false)->Arg(1'000)->Arg(100'000);
BENCHMARK_CAPTURE(compact, i_nulls, "i", true)->Arg(1'000)->Arg(100'000);
BENCHMARK_CAPTURE(compact, u_nulls, "u", true)->Arg(1'000)->Arg(100'000);

/// Ten slices.
void concat(benchmark::State& state, char const* format, bool nulls) {
    auto const slices = bench::slices(format, nulls, state.range(0), 10);
    for (auto _ : state) {
        auto const c = ferry::concat(slices);
        benchmark::DoNotOptimize(&c);
    }
}
BENCHMARK_CAPTURE(concat, i, "i", false)->Arg(1'000)->Arg(100'000);
BENCHMARK_CAPTURE(concat, i_nulls, "i", true)->Arg(1'000)->Arg(100'000);
BENCHMARK_CAPTURE(concat, u_nulls, "u", true)->Arg(1'000)->Arg(100'000);

void concat_dictionaries(benchmark::State& state) {
    auto const chunks = bench::dictionary_chunks();
    for (auto _ : state) {
        auto const c = ferry::concat(chunks);
        benchmark::DoNotOptimize(&c);
    }
}
BENCHMARK(concat_dictionaries);

/// Imports a stream, and joins its chunks.
void join_stream(benchmark::State& state) {
    bench::two_row_batches batches;
    for (auto _ : state) {
        auto stream = batches.stream();
        auto const c = ferry::concat(ferry::from_arrow(&stream));
        benchmark::DoNotOptimize(&c);
    }
}
BENCHMARK(join_stream);

/// Imports a stream, and exports its chunks, which are not joined, as another.
void import_export_stream(benchmark::State& state) {
    bench::two_row_batches batches;
    for (auto _ : state) {
        auto stream = batches.stream();
        ArrowArrayStream out;
        ferry::to_arrow(ferry::from_arrow(&stream), &out);
        bench::drain(out);
    }
}
BENCHMARK(import_export_stream);

}  // namespace

BENCHMARK_MAIN();
