// Measures the import of a column through Arrow's C data interface and its export with the schema, until everything has
// been released. nanoarrow's C library is measured if its sources are found (peers/nanoarrow.cpp).
#include "arrow.hpp"

#include <ferry/arrow.hpp>

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

}  // namespace

BENCHMARK_MAIN();
